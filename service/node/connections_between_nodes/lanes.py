"""Which gets of one peer may wait behind one another; PeerClient's. Threads start with the first get of their lane."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tfquiver.digests.digest import ShardRef
from tfquiver.materializing import derived_uris
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.reach import STORE

_DEEPEST = 4  # functions of functions of functions


class Lane(NamedTuple):
    """Gets of one lane share threads and connections, and wait for nothing that a get behind them could be part of.

    Else the nodes of a cluster wait in a circle, each with all of its threads at peers that wait for a thread of their
    own. So what a peer may ask others for in turn goes another lane than what it can have without them (`store`), and
    what is computed another than what it is computed of, which the trainer that computes it may have from that peer.
    """

    store: bool
    depth: int


def lane_of(ref: ShardRef, reach: int) -> Lane:
    return Lane(reach == STORE, min(derived_uris.depth(ref.file.uri), _DEEPEST))


class Pools:
    """Under a lock of the caller's, but for `shut_down`, which blocks and comes last.

    Args:
      threads, threads_store: at most, of each lane of that `store`.
    """

    def __init__(self, threads: int, threads_store: int) -> None:
        self._threads = {False: threads, True: threads_store}
        self._pools: dict[Lane, ThreadPoolExecutor] = {}

    def of(self, lane: Lane) -> ThreadPoolExecutor:
        pool = self._pools.get(lane)
        if pool is None:
            name = f"peers{' own' if lane.store else ''}{f', derived {lane.depth}' if lane.depth else ''}"
            pool = self._pools[lane] = ThreadPoolExecutor(self._threads[lane.store], name)
        return pool

    def shut_down(self) -> None:
        for pool in self._pools.values():
            pool.shutdown(True)
