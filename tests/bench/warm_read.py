"""How fast a trainer reads a warm cache, against TensorFlow reading the same local files, both in turn in one process.

* 256-byte records, shuffled, batches of 256 made in the op, in a Python loop; the same consumed in C++ (`skip`), where
  no eager iteration (about 105 us each) is in the way; batches of 4096; and `.batch(256)` behind the op;
* 110 KB records, shuffled, batches of 32, also against the second epoch of `cache(file)`, and, where it is installed,
  Hugging Face `datasets`, memory-mapped.

The other side is the better of `TFRecordDataset(files).shuffle(n).batch(b)` and the same with files interleaved in
parallel, in a Python loop; "alike" are figures of both sides consumed the same way. Everything is in the page cache.
Figures are records/s and CPU seconds a GB (of records; this process, and the node for our sides), whole epochs, median.

    python -m tests.bench.warm_read [--quick]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support.cluster import Server
from tests.support.records import stream

if TYPE_CHECKING:
    import tensorflow as tf

FILES = 8
ROUNDS, QUICK_ROUNDS = 5, 3
_ALL = 10**9  # batches; TensorFlow takes some larger numbers for 0


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


def epoch_s(dataset: tf.data.Dataset, records: int, batch: int | None) -> float:
    """`batch` None: no element is to come out."""
    started = time.perf_counter()
    iterator = iter(dataset)
    batches = sum(1 for _ in iterator)
    elapsed_s = time.perf_counter() - started
    # Not in the time: TensorFlow may sleep here for as long as the epoch was (its autotuning thread is joined).
    del iterator
    expected = 0.0 if batch is None else records / batch
    assert abs(batches - expected) < 1, (batches, records, batch)
    return elapsed_s


def cpu_s(pid: int) -> float:
    """Of a process with all its threads, until now."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Side:
    make: Callable[[], Any]
    batch: int | None  # of its elements; None: consumed in C++
    ours: bool = False


def sides(folder: Path, cache_dir: Path, kind: Kind) -> dict[str, Side]:
    import tensorflow as tf

    import tfquiver

    files = sorted(str(path) for path in folder.glob("part-*"))
    auto = tf.data.AUTOTUNE

    def plain(batch: int = kind.batch) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(files).shuffle(kind.shuffle).batch(batch)

    def interleaved(batch: int = kind.batch) -> tf.data.Dataset:
        names = tf.data.Dataset.from_tensor_slices(files)
        records = names.interleave(
            tf.data.TFRecordDataset, cycle_length=FILES, num_parallel_calls=auto, deterministic=False
        )
        return records.shuffle(kind.shuffle).batch(batch)

    def cached() -> tf.data.Dataset:
        whole = tf.data.TFRecordDataset(files).cache(str(folder / "tf-cache"))
        return whole.shuffle(kind.shuffle).batch(kind.batch)

    def ours(batch: int | None = kind.batch) -> tf.data.Dataset:
        return tfquiver.dataset(files, cache_dir=cache_dir, batch_size=batch)

    found = {
        "plain": Side(plain, kind.batch),
        "interleaved": Side(interleaved, kind.batch),
        "op batch": Side(ours, kind.batch, ours=True),
    }
    if kind is SMALL:
        found |= {
            "plain, in C++": Side(lambda: plain().skip(_ALL), None),
            "op batch, in C++": Side(lambda: ours().skip(_ALL), None, ours=True),
            "plain, 4096": Side(lambda: plain(4096), 4096),
            "op batch, 4096": Side(lambda: ours(4096), 4096, ours=True),
            "op then batch": Side(lambda: ours(None).batch(kind.batch), kind.batch, ours=True),
        }
    else:
        found["cache(file)"] = Side(cached, kind.batch)
        if importlib.util.find_spec("datasets") is not None:
            found["Hugging Face map"] = Side(lambda: hugging_face(files, folder, kind), kind.batch)
    return found


def hugging_face(files: list[str], folder: Path, kind: Kind) -> Any:
    """The records in an Arrow file, memory-mapped and shuffled by index, in batches."""
    import datasets
    import tensorflow as tf

    def records() -> Iterator[dict[str, bytes]]:
        for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
            yield {"record": record}

    shape = datasets.Features({"record": datasets.Value("binary")})
    made = datasets.Dataset.from_generator(records, features=shape, cache_dir=str(folder / "hf"), keep_in_memory=False)
    return _Epochs(made, kind.batch)


class _Epochs:
    """Of a Hugging Face data set: each time it is iterated, another order."""

    def __init__(self, made: Any, batch: int) -> None:
        self._made, self._batch, self._epoch = made, batch, 0

    def __iter__(self) -> Iterator[Any]:
        self._epoch += 1
        return iter(self._made.shuffle(seed=self._epoch).iter(batch_size=self._batch))


def measure(base: Path, kind: Kind, quick: bool) -> tuple[dict[str, float], dict[str, float]]:
    """Of each side the median records/s, and CPU seconds a GB."""
    folder = base / kind.name.replace(" ", "_")
    records = write_files(folder, kind, kind.quick_bytes if quick else kind.full_bytes)
    flags = [f"--cache_dir={folder / 'cache'}", "--quota=8GiB"]
    node = Server("tfquiver.service.node.main", flags, base / f"{folder.name}.log").start()
    found = sides(folder, folder / "cache", kind)
    datasets = {name: side.make() for name, side in found.items()}
    seconds: dict[str, list[float]] = {name: [] for name in datasets}
    cpu: dict[str, list[float]] = {name: [] for name in datasets}
    try:
        for name in datasets:  # once unmeasured: fills page cache and node
            epoch_s(datasets[name], records, found[name].batch)
            gc.collect()
        for _ in range(QUICK_ROUNDS if quick else ROUNDS):
            for name, side in found.items():
                pids = [os.getpid(), node.process.pid] if side.ours else [os.getpid()]
                before_s = sum(map(cpu_s, pids))
                seconds[name].append(epoch_s(datasets[name], records, side.batch))
                cpu[name].append(sum(map(cpu_s, pids)) - before_s)
                gc.collect()  # in no figure: to look through all that TensorFlow has imported takes 0.2 s each time
    finally:
        # The data sets keep an eye on their node, and would start it again.
        del datasets
        gc.collect()
        node.stop()
    rates = {name: records / statistics.median(all_s) for name, all_s in seconds.items()}
    cpu_a_gb = {name: statistics.median(all_s) / (records * kind.record_bytes) * 1e9 for name, all_s in cpu.items()}
    for name, all_s in seconds.items():
        spread = f"{min(all_s):.3f} to {max(all_s):.3f} s, {cpu_a_gb[name]:.2f} CPU s/GB"
        print(f"{kind.name}: {name:16} {rates[name]:12,.0f} records/s ({spread})", file=sys.stderr)
    return rates, cpu_a_gb


def bars_of(kind: Kind, rates: dict[str, float], cpu: dict[str, float]) -> list[Bar]:
    other = max(rates["plain"], rates["interleaved"])
    ours = rates["op batch"]
    used = Bar(
        f"{kind.name}, CPU seconds a GB with the node / TFRecordDataset",
        cpu["op batch"] / min(cpu["plain"], cpu["interleaved"]), 0.7, at_most=True,
    )  # fmt: skip
    if kind is SMALL:
        return [
            Bar("256 B, batch_size=256 / TFRecordDataset", ours / other, 5.0),
            Bar("256 B, batch_size=256 in C++ / TFRecordDataset", rates["op batch, in C++"] / other, 8.0),
            Bar("256 B, batch_size=4096 / TFRecordDataset", rates["op batch, 4096"] / other, 8.0),
            Bar("256 B, .batch(256) / TFRecordDataset", rates["op then batch"] / other, 2.0),
            used,
        ]
    bars = [
        Bar("110 KB, batch_size=32 / TFRecordDataset", ours / other, 2.0),
        Bar("110 KB, batch_size=32 / cache(file)", ours / rates["cache(file)"], 1.5),
        used,
    ]
    if "Hugging Face map" in rates:
        bars.append(Bar("110 KB, batch_size=32 / Hugging Face map", ours / rates["Hugging Face map"], 1.0))
    return bars


def main() -> None:
    parser = quick_parser(__doc__, "smaller data sets, less than 60 s")
    quick = parser.parse_args().quick
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    figures: dict[str, Any] = {}
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        for kind in (SMALL, LARGE):
            rates, cpu = measure(Path(base), kind, quick)
            figures[kind.name] = {
                name: {
                    "records_per_s": round(rate), "bytes_per_s": round(rate * kind.record_bytes),
                    "cpu_s_per_gb": round(cpu[name], 3),
                }
                for name, rate in rates.items()
            }  # fmt: skip
            if kind is SMALL:
                figures["alike"] = {
                    "in C++": round(rates["op batch, in C++"] / rates["plain, in C++"], 2),
                    "4096": round(rates["op batch, 4096"] / rates["plain, 4096"], 2),
                }
            bars += bars_of(kind, rates, cpu)
    finish("warm_read", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
