"""One process of fake nodes and jobs: a command a line on its standard input, a line of JSON for each when it is done.

python -m tests.bench.thousand.client ADDRESS DIRECTORY INDEX NODES JOBS DATASETS SHARDS CALLS
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from pathlib import Path
from typing import Any

from tests.bench.thousand.calls import Calls, OneByOne
from tests.bench.thousand.holdings import Holdings
from tests.bench.thousand.jobs import Job, burst
from tests.bench.thousand.nodes import Nodes, percentile
from tests.bench.thousand.scale import CLIENTS, Scale
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.service.node.coordinator_link.call_stream import CallStream

OPENED_AT_ONCE = 16
BURST_AT_ONCE = 8
BURST_JOBS = 100


class Client:
    def __init__(self, stub: Any, scale: Scale, base: Path, index: int, calls: str) -> None:
        one_by_one, apart = calls == "one_by_one", calls != "together"
        digest_ids = [bytes.fromhex(line) for line in (base / "digests").read_text().split()]
        nodes = range(index * scale.nodes // CLIENTS, (index + 1) * scale.nodes // CLIENTS)
        names = {node: f"node-{node:04}" for node in nodes}
        self._calls: dict[str, Calls] = {
            name: OneByOne(stub) if one_by_one else CallStream(stub, ()) for name in names.values()
        }
        self._holdings = Holdings(scale, base, nodes, digest_ids)
        numbers = range(index * scale.jobs // CLIENTS, (index + 1) * scale.jobs // CLIENTS)
        self._first = max(0, scale.datasets - numbers.start)  # so many of these are the first of their data sets
        self._jobs = [
            Job(stub, self._calls[name], number, name, digest_ids[number % scale.datasets])
            for number in numbers
            for name in [names[nodes[number % len(nodes)]]]
        ]
        by_node: dict[str, list[Job]] = {}
        for job in self._jobs:
            by_node.setdefault(job.node, []).append(job)
        self._open: set[Job] = set()

        def reports(node: str) -> list[pb.ReaderReport]:
            return [job.report() for job in by_node.get(node, ()) if job in self._open]

        def heartbeat_goes(node: str, next_s: float) -> None:
            for job in by_node.get(node, ()):
                job.heartbeat_goes(next_s)

        self._nodes = Nodes(self._calls, scale, names, self._holdings, reports, heartbeat_goes, apart)
        self._reading: dict[Job, asyncio.Task[None]] = {}

    async def join(self) -> dict[str, Any]:
        await self._nodes.join()
        return {}

    async def open_first(self) -> dict[str, Any]:
        return await self._open_some(self._jobs[: self._first])

    async def open_others(self) -> dict[str, Any]:
        return await self._open_some(self._jobs[self._first :])

    async def read(self) -> dict[str, Any]:
        self._read_on(self._jobs)
        return {}

    async def forget(self) -> dict[str, Any]:
        self._nodes.forget_figures()
        for job in self._jobs:
            job.leased = job.waited = job.failed = 0
        return {}

    async def figures(self) -> dict[str, Any]:
        nodes = self._nodes
        return {
            "heartbeats": len(nodes.took_ms), "heartbeats_missed": nodes.missed, "heartbeats_asked_again": nodes.again,
            "heartbeat_ms_p50": percentile(nodes.took_ms, 50), "heartbeat_ms_p99": percentile(nodes.took_ms, 99),
            "heartbeat_ms_max": max(nodes.took_ms, default=math.inf), "shards_told": nodes.changes,
            "orders": nodes.orders, "orders_bytes": nodes.orders_bytes,
            "leased": sum(job.leased for job in self._jobs), "leases_without": sum(job.waited for job in self._jobs),
            "leases_failed": sum(job.failed for job in self._jobs),
        }  # fmt: skip

    async def burst(self, shards: str) -> dict[str, Any]:
        """Of jobs that have all they read in the cache; the others go on as ever."""
        jobs = [job for job in self._jobs if job.all_there][:BURST_JOBS]
        for job in jobs:
            self._reading[job].cancel()
        await asyncio.gather(*(self._reading[job] for job in jobs), return_exceptions=True)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        leased = await burst(jobs, int(shards), BURST_AT_ONCE) if jobs else 0
        took_s = loop.time() - began_s
        self._read_on(jobs)
        return {"leased": leased, "took_s": took_s, "jobs": len(jobs)}

    async def stop(self) -> dict[str, Any]:
        for task in self._reading.values():
            task.cancel()
        await self._nodes.stop()
        for calls in self._calls.values():
            calls.close()
        return {}

    def _read_on(self, jobs: list[Job]) -> None:
        self._reading |= {job: asyncio.create_task(job.read_on()) for job in jobs}

    async def _open_some(self, jobs: list[Job]) -> dict[str, Any]:
        few = asyncio.Semaphore(OPENED_AT_ONCE)

        async def one(job: Job) -> None:
            async with few:
                await job.open()
                self._open.add(job)

        await asyncio.gather(*map(one, jobs))
        return {}


async def run(address: str, base: Path, index: int, scale: Scale, calls: str) -> None:
    loop = asyncio.get_running_loop()
    async with rpc.aio_channel(address) as channel:
        client = Client(coordinator_pb2_grpc.CoordinatorStub(channel), scale, base, index, calls)
        print(json.dumps({}), flush=True)
        while command := (await loop.run_in_executor(None, sys.stdin.readline)).split():
            told = await getattr(client, command[0])(*command[1:])
            print(json.dumps(told), flush=True)
            if command[0] == "stop":
                return


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), Scale(*map(int, sys.argv[4:8])), sys.argv[8]))
