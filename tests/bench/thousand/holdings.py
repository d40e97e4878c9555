"""What the fake nodes of one process hold, and what of it comes and goes as the coordinator orders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.bench.thousand.scale import SHARD_BYTES, Scale, node_of, read_hashes
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.shard_owners_chunks_hash_prefixes import striping
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_rows

DISK_BYTES = int(most_disk_bytes(np.array([SHARD_BYTES], np.uint64))[0])
Places = npt.NDArray[np.int64]


class Holdings:
    """A row for each shard that one of these nodes may keep, those of a node together.

    In the beginning the smallest data sets are whole, as far as there is room: so the policy would have it as long as
    nothing is measured.
    """

    def __init__(self, scale: Scale, base: Path, nodes: range, digest_ids: list[bytes]) -> None:
        self._hashes = [read_hashes(base, number) for number in range(scale.datasets)]
        self._number = {digest_id: number for number, digest_id in enumerate(digest_ids)}
        parts = []
        for number, hashes in enumerate(self._hashes):
            keeper = node_of(hashes, scale.nodes)
            mine = np.flatnonzero((keeper >= nodes.start) & (keeper < nodes.stop))
            parts.append(np.stack((keeper[mine], np.full(len(mine), number), mine)))
        rows = np.concatenate(parts, axis=1)
        rows = rows[:, np.argsort(rows[0], kind="stable")]
        self._dataset, self._shard = rows[1].astype(np.uint16), rows[2].astype(np.uint32)
        edges = np.searchsorted(rows[0], np.arange(nodes.start, nodes.stop + 1)).tolist()
        self._rows = {node: slice(*edges[at : at + 2]) for at, node in enumerate(nodes)}
        self._most = scale.quota_bytes // DISK_BYTES
        self.held = np.zeros(len(self._shard), np.bool_)
        for part in self._rows.values():
            self.held[part][: self._most] = True
        self._wanted = np.zeros(len(self._shard), np.bool_)  # to be loaded
        self._unwanted = np.zeros(len(self._shard), np.bool_)  # to go
        self._makes_way = np.ones(len(self._shard), np.bool_)  # nobody has said that it is to stay
        self._rows_of = [np.flatnonzero(self._dataset == number) for number in range(scale.datasets)]
        self._cut: dict[int, tuple[tuple[int, int], npt.NDArray[np.uint32]]] = {}

    def used_bytes(self, node: int) -> int:
        return int(np.count_nonzero(self.held[self._rows[node]])) * DISK_BYTES

    def hashes(self, node: int, places: Places) -> list[bytes]:
        start = self._rows[node].start
        rows = zip(self._dataset[start + places].tolist(), self._shard[start + places].tolist(), strict=True)
        return [self._hashes[number][shard].tobytes() for number, shard in rows]

    def all_of(self, node: int) -> list[bytes]:
        return self.hashes(node, np.flatnonzero(self.held[self._rows[node]]))

    def obey(self, orders: Iterable[pb.DatasetOrders]) -> None:
        """The newest orders replace all before. What a data set that is kept whole lacks comes as if it was missed."""
        self._wanted[:], self._unwanted[:], self._makes_way[:] = False, False, True
        for order in orders:
            number, setting = self._number[order.digest_id], order.setting
            rows = self._rows_of[number]
            held = self.held[rows]
            self._makes_way[rows] = False
            if setting.mode == types_pb2.CACHE_MODE_NONE:
                self._unwanted[rows] = held
            elif setting.mode == types_pb2.CACHE_MODE_UNIFORM:
                whole = setting.allocation_bytes >= 0.99 * len(self._hashes[number]) * DISK_BYTES
                self._wanted[rows] = ~held & whole
            elif setting.mode == types_pb2.CACHE_MODE_COOPERATIVE:
                chunk = self._chunks(number, setting)
                self._wanted[rows] = ~held & _among(chunk, order.load)
                self._unwanted[rows] = held & _among(chunk, order.evict)

    def news(self, node: int, most_loaded: int) -> tuple[Places, Places]:
        """What has come and gone since: as much as was loaded in that time, and has room."""
        part = self._rows[node]
        held = self.held[part]
        gone = np.flatnonzero(self._unwanted[part])
        held[gone] = False
        self._unwanted[part] = False
        come = np.flatnonzero(self._wanted[part])[:most_loaded]
        lacking = len(come) - (self._most - int(np.count_nonzero(held)))
        if lacking > 0:
            way = np.flatnonzero(held & self._makes_way[part])[:lacking]
            held[way] = False
            gone = np.concatenate((gone, way))
            come = come[: len(come) - (lacking - len(way))]
        held[come] = True
        self._wanted[part][come] = False
        return come, gone

    def _chunks(self, number: int, setting: types_pb2.CacheSetting) -> npt.NDArray[np.uint32]:
        """Of each of the data set's rows."""
        cut = setting.chunks, setting.partitions
        if number not in self._cut or self._cut[number][0] != cut:
            hashes = self._hashes[number]
            made = striping.stripe(np.full(len(hashes), SHARD_BYTES, np.uint64), *cut, of_rows(hashes))
            self._cut[number] = cut, made.chunk_of[self._shard[self._rows_of[number]]]
        return self._cut[number][1]


def _among(chunk: npt.NDArray[np.uint32], chunks: Iterable[int]) -> npt.NDArray[np.bool_]:
    listed = np.zeros(striping.MAX_CHUNKS, np.bool_)
    listed[np.fromiter(chunks, np.int64)] = True
    found: npt.NDArray[np.bool_] = listed[chunk]
    return found
