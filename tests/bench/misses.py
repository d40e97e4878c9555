"""How fast a data set that nobody has read before comes from a store that is far away, and in how many requests.

One node, a reader that looks at nothing, and an emulated store that answers after 60 ms and sends 200 MB/s, over all
connections together. Beside it, before and after: eight threads that read the same bytes 16 MiB at a time and do
nothing else. Then the same through `tfquiver warm`'s call, for nobody, into a cache that is empty again.

    python -m tests.bench.misses [--quick]

Bars: the rates of reader and warming against the store's, or that of the plain threads where this machine cannot reach
it; requests for each shard of 2 MiB, of the reader and of warming.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support import node_calls
from tests.support.cluster import Server, wait_until
from tests.support.reader_client import ReaderClient
from tfquiver import stores
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests.digest import Digest
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing import listing
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc
from tfquiver.scanning import digest_build, tfrecord
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.stores import ObjectStore
from tfquiver.stores.credentials.resolved import Access
from tfquiver.testing.emulated_store import EmulatedStore, StoreClient

LATENCY_S, BYTES_PER_S, RATE_BAR, WARM_RATE_BAR, REQUESTS_BAR = 0.060, 200e6, 0.9, 0.8, 0.25
RECORD_BYTES, FILES, PIECE_BYTES = 110_000, 8, 256 << 10
FULL_BYTES, QUICK_BYTES, ROUNDS = 4 << 30, 1 << 30, 3
PLAIN_THREADS, PLAIN_BYTES = 8, 16 << 20
CREDIT_BYTES = 64 << 20


class Reader(ReaderClient):
    """Takes shards and gives them back at once."""

    def use_all(self) -> int:
        used_bytes = 0
        while True:
            frame, descriptor = self.connection.receive()
            if isinstance(frame, frames.End):
                return used_bytes
            assert isinstance(frame, frames.Shard), frame
            os.close(descriptor)
            used_bytes += frame.length_bytes
            self.connection.send(frames.Credit(frame.length_bytes))
            self.connection.send(frames.Ack((frame.shard,)))


def opened(url: str) -> ObjectStore:
    return stores.open_with(Access("gs", json.dumps({"endpoint": url})))


def put(store: EmulatedStore, size_bytes: int) -> Digest:
    """A data set of noise, and its digest."""
    store.make_bucket("bucket")
    for number in range(FILES):
        count = size_bytes // FILES // RECORD_BYTES
        store.put("bucket", f"part-{number}", b"".join(tfrecord.frame(os.urandom(RECORD_BYTES)) for _ in range(count)))
    with contextlib.closing(opened(store.upstream_url)) as direct:
        files = listing.expand("gs://bucket/part-*", lambda _: direct)
        return digest_build.build(files, CutPolicy(), name="misses", store_for=lambda _: direct)


def plain(store: StoreClient, digest: Digest) -> float:
    """Bytes a second of threads that do nothing else."""
    with contextlib.closing(opened(store.url)) as direct:
        ranges = [
            (file.uri, at, min(PLAIN_BYTES, file.size_bytes - at), file.generation)
            for file in digest.files
            for at in range(0, file.size_bytes, PLAIN_BYTES)
        ]

        def read(one: tuple[str, int, int, str]) -> bytes:
            return direct.read(*one, 60.0)

        began = time.perf_counter()
        with ThreadPoolExecutor(PLAIN_THREADS) as pool:
            list(pool.map(read, ranges))
        return digest.size_bytes / (time.perf_counter() - began)


def cold(base: Path, store: StoreClient, digest: Digest) -> dict[str, float]:
    """Through a node whose cache is empty."""
    base.mkdir()
    path = base / "data.tfqd"
    digest.save(path)
    flags = [f"--cache_dir={base / 'cache'}", "--quota=64GiB"]
    node = Server("tfquiver.service.node.main", flags, base / "node.log", {"STORAGE_EMULATOR_HOST": store.url}).start()
    try:
        with Registrar(node_calls.status(node.ready["control"]).coordinator_address, None, "", 30.0) as registrar:
            registrar.digest(path)
        process = psutil.Process(node.process.pid)
        before, cpu = store.traffic(), process.cpu_times()
        client = Reader(node.ready["socket"], digest.digest_id, credit_bytes=CREDIT_BYTES)
        began = time.perf_counter()
        assert client.use_all() == digest.size_bytes
        seconds, left, after = time.perf_counter() - began, store.traffic() - before, process.cpu_times()
        client.close()
        gib = digest.size_bytes / (1 << 30)
        wait_until(lambda: node_calls.status(node.ready["control"]).entries == digest.num_shards, "all is kept")
        found = {
            "bytes_per_s": digest.size_bytes / seconds,
            "requests_a_shard": left.reads / digest.num_shards,
            "times_each_byte": left.payload_bytes / digest.size_bytes,
            "node_cpu_s_a_gib": (after.user + after.system - cpu.user - cpu.system) / gib,
            "node_rss_mib": process.memory_info().rss / (1 << 20),
        }
        return {**found, **warmed(node.ready["control"], store, digest)}
    finally:
        node.stop()


def warmed(control: str, store: StoreClient, digest: Digest) -> dict[str, float]:
    """The same for nobody, by the node behind `control`, which gives up all that it has first."""
    with rpc.channel(control) as channel:
        stub: Any = node_pb2_grpc.NodeStub(channel)
        stub.Clear(node_pb2.ClearRequest(), timeout=60.0)
        before, began = store.traffic(), time.perf_counter()
        *_, last = stub.Warm(node_pb2.WarmRequest(digest_id=digest.digest_id), timeout=600.0)
        assert last.resident_shards == digest.num_shards, last
        return {
            "warm_bytes_per_s": digest.size_bytes / (time.perf_counter() - began),
            "warm_requests_a_shard": (store.traffic() - before).reads / digest.num_shards,
        }


@contextlib.contextmanager
def filled(bytes_per_s: float, size_bytes: int) -> Iterator[tuple[Path, StoreClient, Digest]]:
    """A directory, and a store of that rate with so much data in front of it."""
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base,
        EmulatedStore.start(bytes_per_s, PIECE_BYTES, LATENCY_S, keeps=True) as store,
    ):
        digest = put(store, size_bytes)
        with contextlib.closing(opened(store.url)) as direct:
            for file in digest.files:  # the store has it in front of the emulator then
                direct.read(file.uri, 0, 1, file.generation, 120.0)
        yield Path(base), store, digest


def main() -> None:
    parser = quick_parser(__doc__, "a smaller data set, less than 60 s")
    quick = parser.parse_args().quick
    with filled(BYTES_PER_S, QUICK_BYTES if quick else FULL_BYTES) as (base, store, digest):
        rounds = []
        for number in range(1 if quick else ROUNDS):
            rounds.append({"plain": plain(store, digest), **cold(base / str(number), store, digest)})
            print(json.dumps(rounds[-1]))
    limit = min(BYTES_PER_S, max(each["plain"] for each in rounds))
    best = max(rounds, key=lambda each: each["bytes_per_s"])
    figures: dict[str, Any] = {"shards": digest.num_shards, "limit_bytes_per_s": limit, "rounds": rounds}
    bars = [
        Bar("cold reader / store", best["bytes_per_s"] / limit, RATE_BAR),
        Bar("warming / store", max(each["warm_bytes_per_s"] for each in rounds) / limit, WARM_RATE_BAR),
        Bar("requests a shard, warming", best["warm_requests_a_shard"], REQUESTS_BAR, at_most=True),
        Bar("requests a shard", best["requests_a_shard"], REQUESTS_BAR, at_most=True),
    ]
    finish("misses", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
