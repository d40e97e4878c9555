"""How fast a trainer reads a warm cache, against TensorFlow reading the same local files, both in turn in one process.

* 256-byte records, shuffled, batches of 256 made in the op; and the same with `.batch(256)` behind the op;
* 110 KB records, shuffled, batches of 32.

The other side is the better of `TFRecordDataset(files).shuffle(n).batch(b)` and the same with files interleaved in
parallel. Everything is in the page cache. Figures are records/s (small) and bytes/s (large), whole epochs, median.

    python -m tests.bench.warm_read [--quick]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.bars import Bar, finish
from tests.support.cluster import Server
from tests.support.records import stream

if TYPE_CHECKING:
    import tensorflow as tf

FILES = 8
ROUNDS = 5


@dataclass(frozen=True)
class Kind:
    """A data set, and how it is shuffled and batched on the TensorFlow side."""

    name: str
    record_bytes: int
    batch: int
    shuffle: int  # elements
    full_bytes: int
    quick_bytes: int


SMALL = Kind("256 B", 256, 256, 10_000, 384 << 20, 128 << 20)
# 600 records are what the op's default pool (64 MiB) holds.
LARGE = Kind("110 KB", 110_000, 32, 600, 1 << 30, 384 << 20)


def write_files(folder: Path, kind: Kind, size_bytes: int) -> int:
    """The number of records in the files made."""
    folder.mkdir()
    rng = random.Random(kind.name)
    per_file = size_bytes // FILES // kind.record_bytes
    for number in range(FILES):
        payloads = (rng.randbytes(kind.record_bytes) for _ in range(per_file))  # not compressible
        (folder / f"part-{number}.tfrecord").write_bytes(stream(payloads))
    return per_file * FILES


def epoch_s(dataset: tf.data.Dataset, records: int, batch: int) -> float:
    started = time.perf_counter()
    iterator = iter(dataset)
    batches = sum(1 for _ in iterator)
    elapsed_s = time.perf_counter() - started
    # Not in the time: TensorFlow may sleep here for as long as the epoch was (its autotuning thread is joined).
    del iterator
    gc.collect()
    assert abs(batches - records / batch) < 1, (batches, records, batch)
    return elapsed_s


def sides(folder: Path, cache_dir: Path, kind: Kind) -> dict[str, Callable[[], tf.data.Dataset]]:
    import tensorflow as tf

    import tfquiver

    files = sorted(str(path) for path in folder.glob("part-*"))
    auto = tf.data.AUTOTUNE

    def interleaved() -> tf.data.Dataset:
        names = tf.data.Dataset.from_tensor_slices(files)
        records = names.interleave(
            tf.data.TFRecordDataset, cycle_length=FILES, num_parallel_calls=auto, deterministic=False
        )
        return records.shuffle(kind.shuffle).batch(kind.batch)

    return {
        "plain": lambda: tf.data.TFRecordDataset(files).shuffle(kind.shuffle).batch(kind.batch),
        "interleaved": interleaved,
        "op batch": lambda: tfquiver.dataset(files, cache_dir=cache_dir, batch_size=kind.batch),
        "op then batch": lambda: tfquiver.dataset(files, cache_dir=cache_dir).batch(kind.batch),
    }


def measure(base: Path, kind: Kind, quick: bool) -> dict[str, float]:
    """Median records/s of each side."""
    folder = base / kind.name.replace(" ", "_")
    records = write_files(folder, kind, kind.quick_bytes if quick else kind.full_bytes)
    flags = [f"--cache_dir={folder / 'cache'}", "--quota=8GiB"]
    node = Server("tfquiver.service.node.main", flags, base / f"{folder.name}.log").start()
    makers = sides(folder, folder / "cache", kind)
    if kind is LARGE:
        del makers["op then batch"]  # no bar
    datasets = {name: make() for name, make in makers.items()}
    try:
        seconds: dict[str, list[float]] = {name: [] for name in datasets}
        for name in datasets:  # once unmeasured: fills page cache and node
            epoch_s(datasets[name], records, kind.batch)
        for _ in range(ROUNDS):
            for name in datasets:
                seconds[name].append(epoch_s(datasets[name], records, kind.batch))
    finally:
        # The data sets keep an eye on their node, and would start it again.
        del datasets
        gc.collect()
        node.stop()
    for name, all_s in seconds.items():
        spread = f"{min(all_s):.3f} to {max(all_s):.3f} s"
        print(
            f"{kind.name}: {name:14} {records / statistics.median(all_s):12,.0f} records/s ({spread})", file=sys.stderr
        )
    return {name: records / statistics.median(all_s) for name, all_s in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller data sets, less than 60 s")
    quick = parser.parse_args().quick
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    figures: dict[str, Any] = {}
    bars = []
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        for kind in (SMALL, LARGE):
            rates = measure(Path(base), kind, quick)
            other = max(rates["plain"], rates["interleaved"])
            figures[kind.name] = {name: {"records_per_s": round(rate), "bytes_per_s": round(rate * kind.record_bytes)}
                                  for name, rate in rates.items()}  # fmt: skip
            if kind is SMALL:
                bars.append(Bar("256 B, batch_size=256 / TFRecordDataset", rates["op batch"] / other, 3.0))
                bars.append(Bar("256 B, .batch(256) / TFRecordDataset", rates["op then batch"] / other, 1.3))
            else:
                bars.append(Bar("110 KB, batch_size=32 / TFRecordDataset", rates["op batch"] / other, 1.3))
    finish("warm_read", figures, bars, quick)


if __name__ == "__main__":
    main()
