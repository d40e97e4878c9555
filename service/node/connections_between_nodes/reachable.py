"""Whether this node gets through to others, for `tfquiver doctor`: a connection to each, and no more."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tfquiver import errors
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1 import node_pb2, types_pb2
from tfquiver.service.node.connections_between_nodes.peer_connection import PeerConnection

MOST = 64
_DEADLINE_S = 10.0
_AT_ONCE = 16


class Reach:
    """One look at a time is taken, however many ask: each opens connections to others."""

    def __init__(self, node_id: str, token: str, rng: random.Random) -> None:
        self._node_id, self._token, self._rng = node_id, token, rng
        self._looking = asyncio.Lock()

    async def look(self, members: Sequence[types_pb2.NodeInfo], most: int) -> node_pb2.ReachPeersReply:
        """Raises InvalidArgumentError naming the field."""
        if not 1 <= most <= MOST:
            raise errors.InvalidArgumentError(f"most: {most}; from 1 to {MOST}")
        others = [node for node in members if node.node_id != self._node_id and node.data_address]
        asked = self._rng.sample(others, min(most, len(others)))
        async with self._looking:
            # Of its own: a peer that is silent holds its thread for as long as the kernel tries.
            pool = ThreadPoolExecutor(_AT_ONCE, "reach")
            try:
                loop = asyncio.get_running_loop()
                looks = [loop.run_in_executor(pool, self._reached, node) for node in asked]
                await asyncio.wait(looks, timeout=_DEADLINE_S) if looks else None
                return node_pb2.ReachPeersReply(
                    peers=[_found(look, node) for look, node in zip(looks, asked, strict=True)]
                )
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _reached(self, node: types_pb2.NodeInfo) -> node_pb2.ReachedPeer:
        began_s = time.perf_counter()
        told = node_pb2.ReachedPeer(node_id=node.node_id, data_address=node.data_address)
        try:
            PeerConnection(node.node_id, node.data_address, self._token, self._node_id).close()
        except errors.TfquiverError as error:
            told.error = plain(error)
        told.took_us = int(1e6 * (time.perf_counter() - began_s))
        return told


def _found(look: asyncio.Future[node_pb2.ReachedPeer], node: types_pb2.NodeInfo) -> node_pb2.ReachedPeer:
    if look.done() and not look.cancelled() and look.exception() is None:
        return look.result()
    why = f"silent for {_DEADLINE_S:g} s" if not look.done() else f"it could not be tried: {look.exception()}"
    return node_pb2.ReachedPeer(node_id=node.node_id, data_address=node.data_address, error=why)
