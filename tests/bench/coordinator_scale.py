"""What one event costs the coordinator's loop where there is much of everything: events replayed into the real objects.

100 nodes hold half of a data set of 5 million shards; 200 jobs read it, each with one reader that leases and
acknowledges 32 at a time; nodes evict and load, join and leave; the log is compacted meanwhile. No sockets: a call is
made as its servicer makes it, so that what is counted is the coordinator's own work. A watch on the same loop counts
how late it is called: the longest block. The second half has the same data set cached by chunks.

    python -m tests.bench.coordinator_scale [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.bars import Bar, finish, run_bench
from tests.bench.coordinator import SHARD_BYTES, large_digest
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.grpc_calls.servicer import CoordinatorServicer
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.shard_owners_chunks_hash_prefixes import rendezvous

BATCH = 32
CHANGED = 500  # shards of one report
LEAVING = 3  # nodes
INVENTORY_HASHES = 16_384


class Clocked:
    """Milliseconds of the loop by kind of event."""

    def __init__(self) -> None:
        self.ms: defaultdict[str, list[float]] = defaultdict(list)

    @contextmanager
    def event(self, kind: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.ms[kind].append(1000 * (time.perf_counter() - start))

    def rows(self) -> dict[str, dict[str, float]]:
        return {
            kind: {
                "events": len(ms),
                "median_ms": round(statistics.median(ms), 3),
                "mean_ms": round(statistics.fmean(ms), 3),
                "worst_ms": round(max(ms), 1),
            }
            for kind, ms in self.ms.items()
        }


class Watch:
    """How late it is called, and what came before."""

    def __init__(self) -> None:
        self.worst_ms, self.during, self.at = 0.0, "", ""
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + 0.002
            await asyncio.sleep(0.002)
            late_ms = 1000 * (loop.time() - due)
            if late_ms > self.worst_ms:
                self.worst_ms, self.at = late_ms, self.during

    def stop(self) -> None:
        self._task.cancel()


class Cluster:
    def __init__(self, coordinator: Coordinator, digest: Digest, nodes: int, clocked: Clocked) -> None:
        self.coordinator, self.digest, self.clocked = coordinator, digest, clocked
        self.servicer = CoordinatorServicer(coordinator)
        self.names = [f"node-{number:04}" for number in range(nodes)]
        self.versions = dict.fromkeys(self.names, 0)
        self.members = dict.fromkeys(self.names, 0)
        owner = rendezvous.owners(digest.hashes, self.names)
        order = np.argsort(owner, kind="stable")
        ends = np.cumsum(np.bincount(owner, minlength=nodes))
        self.owned = dict(zip(self.names, np.split(order, ends[:-1]), strict=True))

    def beat(self, node: str, kind: str, added: Any = (), removed: Any = (), full: bool = False) -> None:
        request = pb.HeartbeatRequest(incarnation="1")
        request.node.node_id, request.node.quota_bytes = node, 1 << 40
        request.node.data_address = f"{node}.cluster.example.org:7071"
        if hasattr(request, "members_version"):
            request.members_version = self.members[node]
        if full or len(added) or len(removed):
            self.versions[node] += 1
            request.inventory.full, request.inventory.version = full, self.versions[node]
            hashes = self.digest.hashes
            request.inventory.added.extend(hashes[shard].tobytes() for shard in added)
            request.inventory.removed.extend(hashes[shard].tobytes() for shard in removed)
        with self.clocked.event(kind):
            reply = self.coordinator.heartbeats.take(request)
            reply.SerializeToString()
        self.members[node] = getattr(reply, "members_version", 0)

    async def tell(self, share: float) -> None:
        for node, shards in self.owned.items():
            self.beat(node, "heartbeat", full=True)
            held = shards[: int(len(shards) * share)]
            for at in range(0, len(held), INVENTORY_HASHES):
                self.beat(node, "report_16384", added=held[at : at + INVENTORY_HASHES])
                await asyncio.sleep(0)


class Job:
    """One reader of one epoch."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster, self._reader_id, self._sequence = cluster, f"reader-{number}", 0
        self._node = cluster.names[LEAVING + number % (len(cluster.names) - LEAVING)]
        self.session_id = ""

    async def open(self) -> None:
        request = pb.OpenReaderRequest(
            reader_id=self._reader_id,
            node_id=self._node,
            incarnation="1",
            digest_id=self._cluster.digest.digest_id,
            job=self._reader_id,
            seed=1,
        )
        session, _ = await self._cluster.coordinator.reading.open_reader(request)
        self.session_id = session.session_id

    async def read(self, kind: str) -> int:
        self._sequence += 1
        request = pb.LeaseRequest(
            session_id=self.session_id,
            reader_id=self._reader_id,
            sequence=self._sequence,
            max_shards=BATCH,
            max_bytes=1 << 40,
        )
        with self._cluster.clocked.event(f"{kind}_lease_{BATCH}"):
            reply = await _at_once(self._cluster.servicer.Lease(request, None))
        shards = [lease.shard for lease in reply.leases]
        if shards:
            acked = pb.AckRequest(session_id=self.session_id, reader_id=self._reader_id, shards=shards)
            acking = asyncio.ensure_future(self._cluster.coordinator.reading.ack(acked))
            with self._cluster.clocked.event(f"{kind}_ack_{BATCH}"):
                await asyncio.sleep(0)  # it decides; then it waits for the log
            await acking
        return len(shards)


async def _at_once(call: Awaitable[Any]) -> Any:
    return await call


async def replay(base: Path, shards: int, nodes: int, jobs: int, rounds: int) -> dict[str, Any]:
    clocked = Clocked()
    coordinator = Coordinator(base / "work", CoordinatorOptions(node_timeout_s=600.0))
    await coordinator.start()
    watch = Watch()

    async def phase(name: str, work: Callable[[], Awaitable[None]]) -> None:
        watch.during = name
        await asyncio.sleep(0.01)
        await work()
        await asyncio.sleep(0.01)

    try:
        digest = large_digest(shards)
        cluster = Cluster(coordinator, digest, nodes, clocked)
        await _register(coordinator, digest)
        watch.worst_ms = 0.0
        await phase("inventories", lambda: cluster.tell(0.5))
        readers = [Job(cluster, number) for number in range(jobs)]
        await phase("first open", readers[0].open)
        await phase("opens", lambda: _each(readers[1:], "", clocked))
        await phase("first leases", lambda: _read(readers, "first"))
        await phase("leases", lambda: _rounds(readers, "resident", rounds))
        await phase("evictions", lambda: _rotate(cluster, readers, rounds))
        await phase("a node leaves", lambda: _leave(cluster, readers))
        await phase("compaction", lambda: _compact(coordinator, readers, rounds))
        setting = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_COOPERATIVE, allocation_bytes=shards * SHARD_BYTES)

        async def set_cache() -> None:
            await coordinator.catalogue.set_cache(digest.digest_id, setting)

        await phase("set cooperative", set_cache)
        await phase("first cooperative leases", lambda: _read(readers, "first_cooperative"))
        await phase("cooperative leases", lambda: _rounds(readers, "cooperative", rounds))
        await phase("cooperative evictions", lambda: _rotate(cluster, readers, rounds, "cooperative_"))
        await phase("caretaker", lambda: asyncio.sleep(2.1))
    finally:
        watch.stop()
        await coordinator.stop()
    rss_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    return {
        "shards": shards, "nodes": nodes, "jobs": jobs, "events": clocked.rows(),
        "longest_block_ms": round(watch.worst_ms, 1), "longest_block_in": watch.at, "peak_rss_gib": round(rss_gib, 2),
    }  # fmt: skip


async def _register(coordinator: Coordinator, digest: Digest) -> None:
    async def parts() -> AsyncIterator[bytes]:
        data = digest.to_bytes()
        for at in range(0, len(data), 1 << 20):
            yield data[at : at + (1 << 20)]

    await coordinator.catalogue.register("bench", b"", None, parts())


async def _each(readers: list[Job], kind: str, clocked: Clocked) -> None:
    for reader in readers:
        with clocked.event("open"):
            await reader.open()


async def _read(readers: list[Job], kind: str) -> None:
    for reader in readers:
        await reader.read(kind)


async def _rounds(readers: list[Job], kind: str, rounds: int) -> None:
    for _ in range(rounds):
        await _read(readers, kind)


async def _rotate(cluster: Cluster, readers: list[Job], rounds: int, kind: str = "") -> None:
    """Each node reports evictions and arrivals in turn, and some jobs read between."""
    for step in range(rounds):
        for at, (node, shards) in enumerate(cluster.owned.items()):
            held = len(shards) // 2
            some = shards[step * CHANGED : (step + 1) * CHANGED]
            if len(some) < CHANGED or (step + 1) * CHANGED > held:
                break
            cluster.beat(node, f"{kind}evicted_{CHANGED}", removed=some)
            cluster.beat(node, f"{kind}arrived_{CHANGED}", added=some)
            cluster.beat(node, "heartbeat")
            await readers[at % len(readers)].read(f"{kind}rotating")


async def _leave(cluster: Cluster, readers: list[Job]) -> None:
    for node in cluster.names[:LEAVING]:
        with cluster.clocked.event("node_gone"):
            await cluster.coordinator.leave(node, "1")
        await _read(readers, "rehashed")
        cluster.versions[node] = 0
        cluster.beat(node, "heartbeat", full=True)


async def _compact(coordinator: Coordinator, readers: list[Job], rounds: int) -> None:
    compaction = asyncio.create_task(coordinator._log.compact())
    await asyncio.sleep(0)
    while not compaction.done():
        await _read(readers, "compacting")
    await compaction


MOST_MS = {
    "heartbeat": 0.5, f"evicted_{CHANGED}": 10.0, f"arrived_{CHANGED}": 10.0, f"resident_lease_{BATCH}": 1.0,
    f"resident_ack_{BATCH}": 0.5, f"rehashed_lease_{BATCH}": 2.0, f"cooperative_lease_{BATCH}": 2.0,
    f"cooperative_evicted_{CHANGED}": 10.0, f"cooperative_arrived_{CHANGED}": 10.0,
}  # fmt: skip
LONGEST_BLOCK_MS = 1000.0  # half of a heartbeat's interval: nobody is ever late for the caretaker's sake
MOST_GIB = 3.0


def bars(figures: dict[str, Any]) -> list[Bar]:
    """Of the loop's time the median of each kind of event: other processes make single ones late."""
    events = {kind: figures["events"][kind]["median_ms"] for kind in MOST_MS}
    found = [Bar(f"{kind}_ms", events[kind], most_ms, at_most=True) for kind, most_ms in MOST_MS.items()]
    found.append(Bar("longest_block_ms", figures["longest_block_ms"], LONGEST_BLOCK_MS, at_most=True))
    return [*found, Bar("peak_rss_gib", figures["peak_rss_gib"], MOST_GIB, at_most=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the shards")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="coordinator-scale-") as base:
        figures = asyncio.run(replay(Path(base), 500_000 if quick else 5_000_000, 100, 200, 3))
    for kind, row in figures["events"].items():
        print(f"{kind:32}" + "".join(f"{name}={value:<12}" for name, value in row.items()))
    finish("coordinator_scale", figures, bars(figures), quick)


if __name__ == "__main__":
    run_bench(main)
