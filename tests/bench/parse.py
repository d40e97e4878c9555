"""How fast examples of ten features are parsed: in the source, against TensorFlow's map behind its reader.

Records are `tf.train.Example` of four int64, four float (one of 16 values) and two bytes features of fixed length;
batches of 256, shuffled, everything in the page cache. The other side is the better of plain and interleaved
`TFRecordDataset.shuffle.batch.map(tf.io.parse_example, AUTOTUNE)`; for comparison `map` behind tfquiver, and the same
features as sparse tensors, which TensorFlow's own parser makes. Epochs of all sides in turn in one process; figures are
the median records/s, and the CPU seconds of this process per million records.

    python -m tests.bench.parse [--quick]

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.bars import Bar, finish, run_bench
from tests.support.cluster import Server
from tests.support.records import stream

if TYPE_CHECKING:
    import tensorflow as tf

FILES, BATCH, SHUFFLE = 8, 256, 10_000
ROUNDS = 5


def write_files(folder: Path, records: int) -> None:
    import tensorflow as tf

    rng = random.Random(1)

    def example() -> bytes:
        made = {
            f"int{n}": tf.train.Feature(int64_list=tf.train.Int64List(value=[rng.randrange(1 << 20)])) for n in range(4)
        }
        for n in range(4):
            values = [rng.random() for _ in range(1 if n else 16)]
            made[f"float{n}"] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        for n in range(2):
            made[f"bytes{n}"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[rng.randbytes(32)]))
        return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()

    folder.mkdir()
    some = [example() for _ in range(10_000)]
    for number in range(FILES):
        payloads = (rng.choice(some) for _ in range(records // FILES))
        (folder / f"part-{number}.tfrecord").write_bytes(stream(payloads))


def features(sparse: bool = False) -> dict[str, Any]:
    import tensorflow as tf

    types = {**{f"int{n}": tf.int64 for n in range(4)}, **{f"float{n}": tf.float32 for n in range(4)}}
    types |= {f"bytes{n}": tf.string for n in range(2)}
    if sparse:
        return {key: tf.io.VarLenFeature(dtype) for key, dtype in types.items()}
    return {key: tf.io.FixedLenFeature([16] if key == "float0" else [], dtype) for key, dtype in types.items()}


def sides(folder: Path, cache_dir: Path) -> dict[str, Callable[[], tf.data.Dataset]]:
    import tensorflow as tf

    import tfquiver

    files = sorted(str(path) for path in folder.glob("part-*"))
    auto = tf.data.AUTOTUNE

    def parsed(batches: tf.data.Dataset) -> tf.data.Dataset:
        return batches.map(lambda batch: tf.io.parse_example(batch, features()), num_parallel_calls=auto)

    def interleaved() -> tf.data.Dataset:
        records = tf.data.Dataset.from_tensor_slices(files).interleave(
            tf.data.TFRecordDataset, cycle_length=FILES, num_parallel_calls=auto, deterministic=False
        )
        return parsed(records.shuffle(SHUFFLE).batch(BATCH))

    def ours(**arguments: Any) -> tf.data.Dataset:
        return tfquiver.dataset(files, cache_dir=cache_dir, batch_size=BATCH, **arguments)

    return {
        "plain": lambda: parsed(tf.data.TFRecordDataset(files).shuffle(SHUFFLE).batch(BATCH)),
        "interleaved": interleaved,
        "op then map": lambda: parsed(ours()),
        "parsed in the op": lambda: ours(parse=features()),
        "parsed in the op, sparse": lambda: ours(parse=features(sparse=True)),
    }


def epoch(dataset: tf.data.Dataset, records: int) -> tuple[float, float]:
    """Seconds, and CPU seconds of this process."""
    started, cpu = time.perf_counter(), time.process_time()
    iterator = iter(dataset)
    batches = sum(1 for _ in iterator)
    took = time.perf_counter() - started, time.process_time() - cpu
    del iterator
    gc.collect()
    assert batches == -(-records // BATCH), batches
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller data set, less than 60 s")
    quick = parser.parse_args().quick
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    records = 160_000 if quick else 1_000_000
    took: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        folder, cache_dir = Path(base) / "data", Path(base) / "cache"
        write_files(folder, records)
        flags = [f"--cache_dir={cache_dir}", "--quota=4GiB"]
        node = Server("tfquiver.service.node.main", flags, Path(base) / "node.log").start()
        datasets = {name: make() for name, make in sides(folder, cache_dir).items()}
        try:
            for name in datasets:  # once unmeasured: fills page cache and node
                epoch(datasets[name], records)
            for _ in range(3 if quick else ROUNDS):
                for name in datasets:
                    took.setdefault(name, []).append(epoch(datasets[name], records))
        finally:
            datasets.clear()  # they keep an eye on their node, and would start it again
            gc.collect()
            node.stop()
    rates = {name: records / statistics.median(wall for wall, _ in all_s) for name, all_s in took.items()}
    cpus = {name: statistics.median(cpu for _, cpu in all_s) / records * 1e6 for name, all_s in took.items()}
    for name, rate in rates.items():
        print(f"{name:25} {rate:12,.0f} records/s {cpus[name]:8.2f} CPU s per million", file=sys.stderr)
    other = max(rates["plain"], rates["interleaved"])
    figures = {
        name: {"records_per_s": round(rate), "cpu_s_per_million": round(cpus[name], 2)} for name, rate in rates.items()
    }
    bars = [Bar("parsed in the op / TFRecordDataset.map(parse_example)", rates["parsed in the op"] / other, 2.0)]
    finish("parse", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
