"""How fast records become tensors: in the source, against TensorFlow's map behind its reader.

Two data sets, shuffled, in batches of 256, everything in the page cache: `tf.train.Example`s of four int64, four float
(one of 16 values) and two bytes features of fixed length, and records of fixed length, a label of a byte and an image
of 32 x 32 x 3. The other side is the better of plain and interleaved `TFRecordDataset.shuffle.batch.map(..., AUTOTUNE)`
with `tf.io.parse_example` and `tf.io.decode_raw`; for comparison the same `map` behind tfquiver, and the examples'
features as sparse tensors, which TensorFlow's own parser makes. Epochs of all sides in turn in one process; figures are
the median records/s, and the CPU seconds of this process per million records.

    python -m tests.bench.parse [--quick]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import gc
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support.cluster import Server
from tests.support.records import stream

if TYPE_CHECKING:
    import tensorflow as tf

FILES, BATCH, SHUFFLE = 8, 256, 10_000
ROUNDS = 5
IMAGE = [32, 32, 3]


def example(rng: random.Random) -> bytes:
    import tensorflow as tf

    made = {
        f"int{n}": tf.train.Feature(int64_list=tf.train.Int64List(value=[rng.randrange(1 << 20)])) for n in range(4)
    }
    for n in range(4):
        values = [rng.random() for _ in range(1 if n else 16)]
        made[f"float{n}"] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
    for n in range(2):
        made[f"bytes{n}"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[rng.randbytes(32)]))
    serialized: bytes = tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()
    return serialized


def labelled_image(rng: random.Random) -> bytes:
    return rng.randbytes(1 + math.prod(IMAGE))


def write_files(folder: Path, records: int, record: Callable[[random.Random], bytes]) -> None:
    rng = random.Random(1)
    folder.mkdir()
    some = [record(rng) for _ in range(10_000)]
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


def decoded(batch: tf.Tensor) -> dict[str, tf.Tensor]:
    import tensorflow as tf

    flat = tf.io.decode_raw(batch, tf.uint8)
    return {"label": flat[:, 0], "image": tf.reshape(flat[:, 1:], [-1, *IMAGE])}


def sides(
    folder: Path, cache_dir: Path, parse: Mapping[str, Any], by_map: Callable[[tf.Tensor], Any]
) -> dict[str, Callable[[], tf.data.Dataset]]:
    import tensorflow as tf

    import tfquiver

    files = sorted(str(path) for path in folder.glob("part-*"))
    auto = tf.data.AUTOTUNE

    def parsed(batches: tf.data.Dataset) -> tf.data.Dataset:
        return batches.map(by_map, num_parallel_calls=auto)

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
        "parsed in the op": lambda: ours(parse=parse),
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


Made = tuple[int, Callable[[], dict[str, Callable[[], "tf.data.Dataset"]]]]  # records, and the sides


def examples(folder: Path, cache_dir: Path, quick: bool) -> Made:
    import tensorflow as tf

    import tfquiver

    records = 160_000 if quick else 1_000_000
    write_files(folder, records, example)

    def by_side() -> dict[str, Callable[[], tf.data.Dataset]]:
        of = sides(folder, cache_dir, features(), lambda batch: tf.io.parse_example(batch, features()))
        files = sorted(str(path) for path in folder.glob("part-*"))
        of["parsed in the op, sparse"] = lambda: tfquiver.dataset(
            files, cache_dir=cache_dir, batch_size=BATCH, parse=features(sparse=True)
        )
        return of

    return records, by_side


def fixed_length(folder: Path, cache_dir: Path, quick: bool) -> Made:
    import tfquiver

    records = 40_000 if quick else 200_000
    write_files(folder, records, labelled_image)
    parse = {"label": tfquiver.FixedLength([], "uint8"), "image": tfquiver.FixedLength(IMAGE, "uint8")}
    return records, lambda: sides(folder, cache_dir, parse, decoded)


def measure(base: Path, of: Callable[[Path, Path, bool], Made], quick: bool) -> dict[str, dict[str, float]]:
    base.mkdir()
    cache_dir = base / "cache"
    records, made = of(base / "data", cache_dir, quick)
    took: dict[str, list[tuple[float, float]]] = {}
    flags = [f"--cache_dir={cache_dir}", "--quota=4GiB"]
    node = Server("tfquiver.service.node.main", flags, base / "node.log").start()
    datasets = {name: make() for name, make in made().items()}
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
    figures = {}
    for name, all_s in took.items():
        rate = records / statistics.median(wall for wall, _ in all_s)
        cpu_s = statistics.median(cpu for _, cpu in all_s) / records * 1e6
        print(f"{base.name:13} {name:25} {rate:12,.0f} records/s {cpu_s:8.2f} CPU s per million", file=sys.stderr)
        figures[name] = {"records_per_s": round(rate), "cpu_s_per_million": round(cpu_s, 2)}
    return figures


def main() -> None:
    parser = quick_parser(__doc__, "a smaller data set, less than 60 s")
    quick = parser.parse_args().quick
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    figures: dict[str, Any] = {}
    bars = []
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        for name, of in {"examples": examples, "fixed length": fixed_length}.items():
            rates = figures[name] = measure(Path(base, name), of, quick)
            stock = max(rates[side]["records_per_s"] for side in ("plain", "interleaved"))
            ratio = rates["parsed in the op"]["records_per_s"] / stock
            bars.append(Bar(f"{name}, parsed in the op / TFRecordDataset.map", ratio, 2.0))
    finish("parse", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
