"""Fake nodes: heartbeats as often as real ones, with what they hold, load and their readers say; and their orders."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Callable, Mapping

import grpc
import numpy as np

from tests.bench.thousand.calls import Calls
from tests.bench.thousand.holdings import Holdings
from tests.bench.thousand.scale import SHARD_BYTES, Scale
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb

# As service/node/coordinator_link/coordinator_link.py does it.
SOONEST_S, SOONEST_NODES, ORDERS_WAIT_MS = 0.01, 4, 10_000
CALL_TIMEOUT_S = 10.0
STORE_BYTES_PER_S = 4e6  # of a node, of what it loads; and so long a request takes:
REQUEST_S = 0.05

Reports = Callable[[str], list[pb.ReaderReport]]
# As service/node/coordinator_link/coordinator_link.py has them.
LATEST_ORDERS, SOONEST_ORDERS = 2.0, 0.8


class Nodes:
    """`calls`: of each node, by its name. `reports`: what readers of a node say now. `on_heartbeat`: what they have to
    say goes along. `apart`: nothing goes along with heartbeats."""

    def __init__(
        self,
        calls: Mapping[str, Calls],
        scale: Scale,
        names: dict[int, str],
        holdings: Holdings,
        reports: Reports,
        on_heartbeat: Callable[[str, float], None],
        apart: bool,
    ) -> None:
        self._calls, self._scale, self._names, self._holdings, self._reports = calls, scale, names, holdings, reports
        self._on_heartbeat, self._apart = on_heartbeat, apart
        self._beating = {node: asyncio.Event() for node in names}
        self._pause_s = SOONEST_S * max(1.0, scale.nodes / SOONEST_NODES)
        self._began_s = time.monotonic()
        self._loaded = dict.fromkeys(names, 0)  # shards
        self._versions = dict.fromkeys(names, 0)
        self._members = dict.fromkeys(names, 0)
        self._orders_version, self._obeyed_at = 0, 0.0
        self._interval_s = 1.0
        self.took_ms: list[float] = []  # heartbeats
        self.missed = self.again = self.changes = 0  # no answer; everything asked for again; shards told of
        self.orders = self.orders_bytes = 0  # replies with news
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self) -> None:
        """32 at a time, as far as the coordinator gets."""
        few = asyncio.Semaphore(32)

        async def one(node: int) -> None:
            async with few:
                await self._tell_all(node)
            self._tasks += [asyncio.create_task(self._beat_on(node)), asyncio.create_task(self._follow_orders(node))]

        await asyncio.gather(*map(one, self._names))

    def forget_figures(self) -> None:
        self.took_ms, self.missed, self.again, self.changes = [], 0, 0, 0
        self.orders = self.orders_bytes = 0

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Heartbeats.

    def _request(self, node: int) -> pb.HeartbeatRequest:
        name = self._names[node]
        request = pb.HeartbeatRequest(incarnation="1", members_version=self._members[node])
        request.node.node_id, request.node.quota_bytes = name, self._scale.quota_bytes
        request.node.control_address = request.node.data_address = f"{name}.cluster.example.org:7071"
        request.node.used_bytes = self._holdings.used_bytes(node)
        return request

    async def _tell_all(self, node: int) -> None:
        request = self._request(node)
        self._versions[node] += 1
        request.inventory.full, request.inventory.version = True, self._versions[node]
        request.inventory.added.extend(self._holdings.all_of(node))
        await self._beat(node, request, 60.0)

    async def _beat(self, node: int, request: pb.HeartbeatRequest, timeout_s: float) -> None:
        began_s = time.perf_counter()
        reply = await self._calls[self._names[node]].heartbeat(request, timeout_s)
        self.took_ms.append(1000 * (time.perf_counter() - began_s))
        self._members[node], self._interval_s = reply.members_version, reply.heartbeat_interval_ms / 1000
        if reply.resend_inventory:
            self.again += 1
            await self._tell_all(node)

    async def _beat_on(self, node: int) -> None:
        name = self._names[node]
        beat_s = self._pause_s + self._interval_s  # between two, at most
        most_loaded = round(STORE_BYTES_PER_S * beat_s / SHARD_BYTES)
        await asyncio.sleep(random.uniform(0.0, beat_s))
        beat_at = time.monotonic()
        while True:
            if not self._apart:
                self._beating[node].set()
                self._beating[node] = asyncio.Event()
                now = time.monotonic()
                self._on_heartbeat(name, now - beat_at)
                beat_at = now
                await asyncio.sleep(0)
            request = self._request(node)
            come, gone = self._holdings.news(node, most_loaded)
            news = len(come) + len(gone)
            if news:
                self._versions[node] += 1
                request.inventory.version = self._versions[node]
                request.inventory.added.extend(self._holdings.hashes(node, come))
                request.inventory.removed.extend(self._holdings.hashes(node, gone))
                self.changes += news
                self._loaded[node] += len(come)
            request.readers.extend(self._reports(name))
            self._tell_reads(node, request.store_reads)
            try:
                await self._beat(node, request, CALL_TIMEOUT_S)
            except grpc.RpcError:
                self.missed += 1
            rest_s = 0.0 if news else self._interval_s * random.uniform(0.8, 1.0)
            await asyncio.sleep(self._pause_s + rest_s)

    def _tell_reads(self, node: int, reads: pb.StoreReads) -> None:
        elapsed_s, loaded = time.monotonic() - self._began_s, self._loaded[node]
        reads.reads, reads.bytes = loaded, loaded * SHARD_BYTES
        reads.request_us = round(1e6 * loaded * REQUEST_S)
        reads.elapsed_us = round(1e6 * elapsed_s)
        reads.busy_us = min(reads.request_us, reads.elapsed_us)

    # Orders.

    async def _follow_orders(self, node: int) -> None:
        version = 0
        while True:
            request = pb.OrdersRequest(
                node_id=self._names[node], incarnation="1", version=version, wait_ms=ORDERS_WAIT_MS
            )
            try:
                reply = await self._calls[request.node_id].orders(request, CALL_TIMEOUT_S + ORDERS_WAIT_MS / 1000)
            except grpc.RpcError:
                self.missed += 1
                await asyncio.sleep(1.0)
                continue
            if reply.version == version:
                continue
            version = reply.version
            self.orders, self.orders_bytes = self.orders + 1, self.orders_bytes + reply.ByteSize()
            await self._obey(reply)
            pause_s = SOONEST_S * (self._scale.nodes // SOONEST_NODES)
            if self._apart:
                await asyncio.sleep(pause_s)
                continue
            await asyncio.sleep(SOONEST_ORDERS * pause_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((LATEST_ORDERS - SOONEST_ORDERS) * pause_s):
                    await self._beating[node].wait()

    async def _obey(self, reply: pb.OrdersReply) -> None:
        """All nodes of this process do what one was told, and once a second: they need not all look at the same."""
        now = time.monotonic()
        if reply.version <= self._orders_version or now < self._obeyed_at + 1.0:
            return
        self._orders_version, self._obeyed_at = reply.version, now
        await asyncio.to_thread(self._holdings.obey, list(reply.orders))


def percentile(figures: list[float], of: float) -> float:
    return float(np.percentile(figures, of)) if figures else math.inf
