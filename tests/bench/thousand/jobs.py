"""Fake jobs: each has one reader of one session, on a node of its process; it leases, reads at its pace, acks."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from typing import Any

import grpc
import numpy as np

from tests.bench.thousand.calls import Calls
from tests.bench.thousand.scale import RECORD_BYTES, SHARD_BYTES
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.reader_sessions.reader_calls import ACK_WITHIN_S

BATCH = 32  # what a node asks for that keeps 64 shards leased ahead
WAIT_MS = 1000  # as nodes do
CALL_TIMEOUT_S, OPEN_DEADLINE_S = 20.0, 300.0
IDEAL_BYTES_PER_S, STORE_BYTES_PER_S = (2e6, 16e6), 3e6  # what jobs could read, and what one gets from the store


class Job:
    """What it was leased it has read when the time for that has passed: `ideal_bytes_per_s`, or slower where the store
    is. Its report is of that moment."""

    def __init__(self, stub: Any, calls: Calls, number: int, node: str, digest_id: bytes) -> None:
        """`calls`: its node's."""
        self._stub, self._calls, self.node, self._digest_id = stub, calls, node, digest_id
        self.name = f"job-{number:04}"
        low, high = np.log(IDEAL_BYTES_PER_S)
        self._shard_s = SHARD_BYTES / float(np.exp(np.random.default_rng(number).uniform(low, high)))
        self._missing_s = max(self._shard_s, SHARD_BYTES / STORE_BYTES_PER_S)
        self._session_id, self._sequence, self._ack_within_s = "", 0, ACK_WITHIN_S
        self._unacked: list[int] = []
        self._began_s = self._batch_at = self._batch_s = 0.0
        self._read = self._reading = self._hits = self._misses = 0  # shards; `_reading`: of this batch
        self._goes_along, self._acks_at = asyncio.Event(), math.inf
        self.all_there = False  # of the last batch
        self.leased = self.waited = self.failed = 0  # shards; replies without any, and calls that failed

    async def open(self) -> None:
        request = pb.OpenReaderRequest(
            reader_id=self.name, node_id=self.node, incarnation="1", digest_id=self._digest_id, job=self.name, seed=1
        )

        async def call() -> pb.OpenReaderReply:
            reply: pb.OpenReaderReply = await self._stub.OpenReader(request, timeout=CALL_TIMEOUT_S)
            return reply

        reply = await rpc.retry(call, self.name, OPEN_DEADLINE_S)  # as nodes do
        self._session_id, self._began_s = reply.session_id, time.monotonic()

    async def read_on(self) -> None:
        while True:
            try:
                if await self.lease(WAIT_MS):
                    await self._read_batch()
            except grpc.RpcError:
                self.failed += 1
                await asyncio.sleep(1.0)

    async def _read_batch(self) -> None:
        """As a node's reader: what it has read it acknowledges as late as it may, the last of it by the next lease."""
        pause_s = max(self._ack_within_s, self._batch_s / self._reading)
        while (left_s := self._batch_at + self._batch_s - time.monotonic()) > pause_s:
            self._acks_at = time.monotonic() + pause_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._goes_along.wait()
            self._goes_along.clear()
            self._acks_at = math.inf
            to_read = self._reading * (1 - (time.monotonic() - self._batch_at) / self._batch_s)
            await self.ack(len(self._unacked) - math.ceil(max(0.0, to_read)))
        await asyncio.sleep(max(0.0, left_s))

    def heartbeat_goes(self, next_s: float) -> None:
        """As service/node/reader_sessions/ack_timer.py has it."""
        if time.monotonic() + next_s > self._acks_at:
            self._goes_along.set()

    async def lease(self, wait_ms: int) -> int:
        """How many shards it got; it acknowledges the last ones. Repeated with the same sequence if cancelled."""
        request = pb.LeaseRequest(
            session_id=self._session_id, reader_id=self.name, sequence=self._sequence + 1, max_shards=BATCH,
            max_bytes=1 << 40, wait_ms=wait_ms, acked=self._unacked,
        )  # fmt: skip
        reply = await self._calls.lease(request, CALL_TIMEOUT_S)
        assert reply.acks_durable == bool(request.acked)
        self._ack_within_s = max(ACK_WITHIN_S, reply.ack_within_ms / 1000)
        self._sequence += 1
        self._unacked = [lease.shard for lease in reply.leases]
        leased = len(self._unacked)
        there = sum(lease.resident and not lease.bypass for lease in reply.leases)
        self._read += self._reading
        self._reading, self._batch_at = leased, time.monotonic()
        self._batch_s = there * self._shard_s + (leased - there) * self._missing_s
        self._hits, self._misses = self._hits + there, self._misses + leased - there
        self.all_there = 0 < leased == there
        self.leased += leased
        self.waited += not leased
        return leased

    async def ack(self, count: int) -> None:
        """The first so many of those it was leased and has not acknowledged."""
        if count > 0:
            request = pb.AckRequest(session_id=self._session_id, reader_id=self.name, shards=self._unacked[:count])
            await self._calls.ack(request, CALL_TIMEOUT_S)
            del self._unacked[:count]

    def report(self) -> pb.ReaderReport:
        now = time.monotonic()
        share = min(1.0, (now - self._batch_at) / self._batch_s) if self._batch_s else 1.0
        read, elapsed_s = self._read + share * self._reading, now - self._began_s
        return pb.ReaderReport(
            session_id=self._session_id, reader_id=self.name, records=round(read * SHARD_BYTES / RECORD_BYTES),
            bytes=round(read * SHARD_BYTES), elapsed_us=round(1e6 * elapsed_s),
            waited_us=round(1e6 * max(0.0, elapsed_s - read * self._shard_s)),
            hit_bytes=self._hits * SHARD_BYTES, missed_bytes=self._misses * SHARD_BYTES,
        )  # fmt: skip


async def burst(jobs: list[Job], shards: int, at_once: int) -> int:
    """So many shards leased and acknowledged as fast as it goes, `at_once` jobs at a time, each in its turn. Fewer,
    when the jobs have nothing more to read at once."""
    left, idle, turns = shards, 0, deque(jobs)

    async def worker() -> None:
        nonlocal left, idle
        while left > 0 and idle < 2 * len(jobs) and turns:
            job = turns.popleft()
            try:
                leased = await job.lease(0)
            except grpc.RpcError:  # its node was lost, say; it has no turn any more
                job.failed += 1
                continue
            left -= leased
            idle = 0 if leased else idle + 1
            turns.append(job)

    await asyncio.gather(*(worker() for _ in range(at_once)))
    await asyncio.gather(*(job.ack(BATCH) for job in turns))
    return shards - left
