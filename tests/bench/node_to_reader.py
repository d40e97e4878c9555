"""How fast a node hands shards to a reader, against the limit of each way, both in turn in one process.

* raw: shards by descriptor, the reader `pread`s them into one buffer; against `pread` of the same files.
* zstd: shards decompressed into sealed memory that the reader maps; against decompressing in memory, one thread.

    python -m tests.bench.node_to_reader [--quick]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import gc
import mmap
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support import node_calls, records
from tests.support.cluster import Server
from tests.support.reader_client import ReaderClient
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.disk import entry

RAW_BAR = 0.8
ZSTD_BAR = 0.8
ROUNDS = 5
CREDIT_BYTES = 64 << 20
RECORD_BYTES = 110_000
PAGE_BYTES = 4096
_WORDS = [f"word-{n} ".encode() for n in range(4000)]


class PlainReader(ReaderClient):
    """Uses what it is given without checking it: the cost of a reader is not what is measured."""

    def use_all(self, use: Callable[[frames.Shard, int], None]) -> None:
        while True:
            frame, descriptor = self.connection.receive()
            if isinstance(frame, frames.End):
                return
            assert isinstance(frame, frames.Shard), frame
            use(frame, descriptor)
            os.close(descriptor)
            self.connection.send(frames.Credit(frame.length_bytes))
            self.connection.send(frames.Ack((frame.shard,)))


def read_through_node(node: Server, dataset: types_pb2.Dataset, use: Callable[[frames.Shard, int], None]) -> float:
    client = PlainReader(node.ready["socket"], dataset.digest_id, credit_bytes=CREDIT_BYTES)
    start = time.perf_counter()
    client.use_all(use)
    seconds = time.perf_counter() - start
    client.close()
    return seconds


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(ours: Callable[[], float], theirs: Callable[[], float], size_bytes: int) -> dict[str, Any]:
    """Medians over ROUNDS of both, after a round to warm up."""
    ours()
    theirs()
    gc.collect()
    pairs = [(ours(), theirs()) for _ in range(ROUNDS)]
    node_s, limit_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {
        "node_bytes_per_s": round(size_bytes / node_s),
        "limit_bytes_per_s": round(size_bytes / limit_s),
        "ratio": round(limit_s / node_s, 3),
    }


def entries_of(node: Server) -> list[Path]:
    return [path for path in Path(node.ready["socket"]).parent.parent.glob("objects/*/*/*") if path.is_file()]


def filled(base: Path, name: str, codec: str, payload: Callable[[], bytes], size_bytes: int) -> tuple[Server, Any]:
    """A node with a warm cache, and its data set."""
    (base / name).mkdir()
    for part in range(4):
        payloads = (payload() for _ in range(size_bytes // 4 // RECORD_BYTES))
        (base / name / f"part-{part}").write_bytes(records.stream(payloads))
    flags = [f"--cache_dir={base / name / 'cache'}", "--quota=8GiB", f"--codec={codec}", "--hot=0"]
    node = Server("tfquiver.service.node.main", flags, base / f"{name}.log").start()
    dataset = node_calls.ensure(node.ready["control"], base / name / "part-*")
    read_through_node(node, dataset, lambda frame, descriptor: None)
    assert len(entries_of(node)) == dataset.shards
    return node, dataset


def raw_row(base: Path, size_bytes: int) -> dict[str, Any]:
    rng = random.Random(1)
    node, dataset = filled(base, "raw", "raw", lambda: rng.randbytes(RECORD_BYTES), size_bytes)
    buffer = bytearray(9 << 20)

    def use(frame: frames.Shard, descriptor: int) -> None:
        assert os.preadv(descriptor, [memoryview(buffer)[: frame.length_bytes]], frame.offset) == frame.length_bytes

    def pread_all() -> None:
        for path in entries_of(node):
            descriptor = os.open(path, os.O_RDONLY)
            os.preadv(descriptor, [buffer], entry.HEADER_BYTES)
            os.close(descriptor)

    try:
        row = in_turn(lambda: read_through_node(node, dataset, use), lambda: timed(pread_all), dataset.size_bytes)
    finally:
        node.stop()
    return {**row, "shards": dataset.shards, "bar": RAW_BAR}


def zstd_row(base: Path, size_bytes: int) -> dict[str, Any]:
    rng = random.Random(2)

    def text() -> bytes:
        return b"".join(rng.choices(_WORDS, k=RECORD_BYTES // 9))[:RECORD_BYTES]

    node, dataset = filled(base, "zstd", "zstd", text, size_bytes)
    stored = [path.read_bytes()[entry.HEADER_BYTES :] for path in entries_of(node)]

    def use(frame: frames.Shard, descriptor: int) -> None:
        assert frame.kind == frames.KIND_MEMORY
        with mmap.mmap(descriptor, frame.length_bytes, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
            bytes(view[::PAGE_BYTES])

    def decompress_all() -> None:
        decompressor = zstandard.ZstdDecompressor()
        for data in stored:
            decompressor.decompress(data)

    try:
        row = in_turn(lambda: read_through_node(node, dataset, use), lambda: timed(decompress_all), dataset.size_bytes)
    finally:
        node.stop()
    compression = dataset.size_bytes / sum(map(len, stored))
    return {**row, "shards": dataset.shards, "compression": round(compression, 2), "bar": ZSTD_BAR}


def main() -> None:
    quick = quick_parser(__doc__, "less data, under a minute").parse_args().quick
    size_bytes = (512 if quick else 1024) << 20
    with tempfile.TemporaryDirectory(prefix="node-to-reader-") as base:
        rows = {"raw": raw_row(Path(base), size_bytes), "zstd": zstd_row(Path(base), size_bytes)}
    bars = [Bar(f"{name}: through the node / the limit", row["ratio"], row["bar"]) for name, row in rows.items()]
    finish("node_to_reader", {"size_bytes": size_bytes, **rows}, bars, quick)


if __name__ == "__main__":
    run_bench(main)
