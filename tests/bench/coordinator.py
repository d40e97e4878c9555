"""Leases per second of one coordinator: a real server in its own process, asked and told as nodes do.

Several readers share one session of many shards. Each leases in batches, and acknowledges what it was given in batches
before it asks for more; every shard is leased and acknowledged once, the log is synced to disk. The batch with the bars
is that of a node that keeps 64 shards leased ahead and asks when half of them are sent: 32. Nodes ask for fewer at a
time when shards are large: batches of 8 are a figure without a bar.

    python -m tests.bench.coordinator [--quick]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tests.bench.bars import Bar, finish, run_bench
from tests.support.cluster import Server
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc

LEASES_PER_S_BAR = 20_000
READERS = 8
SHARD_BYTES = 2 << 20
BATCH = 32
SMALL_BATCH = 8
PART_BYTES = 1 << 20
NODES = ("node-a", "node-b")
INVENTORY_HASHES = 16_384


def large_digest(shards: int) -> Digest:
    rng = np.random.default_rng(1)
    return Digest.build(
        "bench",
        [FileEntry("file:///data", shards * SHARD_BYTES, "1", "none")],
        rng.integers(0, 256, (shards, 32), np.uint8),
        np.zeros(shards),
        np.arange(shards, dtype=np.uint64) * SHARD_BYTES,
        np.full(shards, SHARD_BYTES),
        np.ones(shards),
    )


async def register(stub: Any, digest: Digest) -> None:
    async def parts() -> Any:
        data = digest.to_bytes()
        for at in range(0, len(data), PART_BYTES):
            yield pb.RegisterDatasetRequest(part=data[at : at + PART_BYTES])

    await stub.RegisterDataset(parts(), timeout=60.0, wait_for_ready=True)


async def tell_inventories(stub: Any, digest: Digest) -> None:
    """Both nodes join; the first holds half of the shards."""
    hashes = [digest.hashes[shard].tobytes() for shard in range(digest.num_shards // 2)]
    for node in NODES:
        info = pb.HeartbeatRequest(incarnation="1")
        info.node.node_id, info.node.quota_bytes = node, 1 << 40
        version = 1
        info.inventory.full, info.inventory.version = True, version
        await stub.Heartbeat(info, timeout=10.0)
        for at in range(0, len(hashes) if node == NODES[0] else 0, INVENTORY_HASHES):
            version += 1
            info.inventory.full, info.inventory.version = False, version
            info.inventory.added[:] = hashes[at : at + INVENTORY_HASHES]
            await stub.Heartbeat(info, timeout=10.0)


async def read(stub: Any, session_id: str, digest_id: bytes, number: int, batch: int) -> tuple[int, list[float]]:
    """One reader from open to END: shards it was given, seconds that each lease took."""
    reader_id = f"{session_id}-{number}"
    await stub.OpenReader(
        pb.OpenReaderRequest(
            session_id=session_id,
            reader_id=reader_id,
            node_id=NODES[number % 2],
            incarnation="1",
            digest_id=digest_id,
        ),
        timeout=10.0,
    )
    given, sequence = 0, 0
    took_s: list[float] = []
    while True:
        sequence += 1
        request = pb.LeaseRequest(
            session_id=session_id, reader_id=reader_id, sequence=sequence, max_shards=batch,
            max_bytes=1 << 40, wait_ms=1000, draining=True,
        )  # fmt: skip
        start = time.perf_counter()
        reply = await stub.Lease(request, timeout=20.0)
        if reply.state == pb.LeaseReply.STATE_LEASED:
            took_s.append(time.perf_counter() - start)
        given += len(reply.leases)
        unacked = [lease.shard for lease in reply.leases]
        if unacked:
            await stub.Ack(pb.AckRequest(session_id=session_id, reader_id=reader_id, shards=unacked), timeout=20.0)
        if reply.state == pb.LeaseReply.STATE_END:
            break
    close = pb.CloseReaderRequest(session_id=session_id, reader_id=reader_id, complete=True)
    await stub.CloseReader(close, timeout=10.0)
    return given, took_s


async def keep_nodes_alive(stub: Any) -> None:
    while True:
        for node in NODES:
            beat = pb.HeartbeatRequest(incarnation="1")
            beat.node.node_id, beat.node.quota_bytes = node, 1 << 40
            await stub.Heartbeat(beat, timeout=10.0)
        await asyncio.sleep(1.0)


async def measure(server: Server, shards: int, rounds: int, batch: int) -> list[dict[str, float]]:
    digest = large_digest(shards)
    process = psutil.Process(server.process.pid)
    rows = []
    async with rpc.aio_channel(server.address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        await register(stub, digest)
        await tell_inventories(stub, digest)
        beating = asyncio.create_task(keep_nodes_alive(stub))
        for number in range(rounds + 1):  # the first one warms up
            ticket = pb.TicketRequest(session_key="bench", provider_id=f"p{batch}:{number}", digest_id=digest.digest_id)
            session_id = (await stub.Ticket(ticket, timeout=10.0)).session_id
            before, start = process.cpu_times(), time.perf_counter()
            read_by = await asyncio.gather(
                *(read(stub, session_id, digest.digest_id, n, batch) for n in range(READERS))
            )
            wall_s, after = time.perf_counter() - start, process.cpu_times()
            cpu_s = after.user - before.user + after.system - before.system
            assert sum(given for given, _ in read_by) == shards, "not every shard exactly once"
            took_ms = sorted(1000 * second for _, seconds in read_by for second in seconds)
            rows.append(
                {
                    "leases_per_s": shards / wall_s,
                    "leases_per_cpu_s": shards / cpu_s,
                    "server_cores": cpu_s / wall_s,
                    "calls": len(took_ms) * 2,
                    "lease_ms_median": statistics.median(took_ms),
                    "lease_ms_p99": took_ms[int(len(took_ms) * 0.99)],
                }
            )
        beating.cancel()
        await asyncio.wait([beating])
    return rows[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer shards, under a minute")
    quick = parser.parse_args().quick
    shards, rounds = (50_000, 3) if quick else (200_000, 5)
    with tempfile.TemporaryDirectory(prefix="coordinator-") as base:
        flags = ["--port=0", f"--work_dir={base}/work"]
        server = Server("tfquiver.service.coordinator.main", flags, Path(base) / "log").start()
        try:
            rows = asyncio.run(measure(server, shards, rounds, BATCH))
            small = asyncio.run(measure(server, shards // 4, rounds, SMALL_BATCH))
        finally:
            server.stop()
    figures = medians(rows)
    bars = [Bar(name, figures[name], LEASES_PER_S_BAR) for name in ("leases_per_s", "leases_per_cpu_s")]
    setting = {"shards": shards, "readers": READERS, "rounds": rounds, "batch": BATCH}
    finish("coordinator", {**setting, **figures, f"in_batches_of_{SMALL_BATCH}": medians(small)}, bars, quick)


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}


if __name__ == "__main__":
    run_bench(main)
