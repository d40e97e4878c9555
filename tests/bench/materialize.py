"""What preprocessing once saves: reading materialized images, beside decoding them each time, in turn in one process.

JPEG images of 320 x 240 are decoded and made 96 x 96 (uint8), with a label. Whole epochs, shuffled, batches of 32;
median of the rounds:

* `decode`: `tfquiver.dataset(...).map(decode).batch(32)`;
* `materialized`: `tfquiver.dataset(..., batch_size=32).apply(tfquiver.materialize(decode))`;
* `raw`: records of the very bytes that are kept, read by `tfquiver.dataset(..., batch_size=32)`: what reading costs;
* `cache(file)` and `snapshot` of tf.data, from their second epoch on, shuffled behind.

And N jobs at once that want the same (images of 640 x 480): how often the function was called, and the CPU seconds of
their making it, beside one job.

    python -m tests.bench.materialize [--quick]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support.cluster import Server, die_with_parent, tensorflow_env

if TYPE_CHECKING:
    import tensorflow as tf

FILES, BATCH, SIDE, SHUFFLE = 4, 32, 96, 600
DIFFERENT = 1000  # images; records are all different by their first bytes


def write_images(folder: Path, count: int, seed: int, times: int = 1) -> list[str]:
    """Smooth noise, so that a JPEG has about the size of a photograph's: of 320 x 240, `times` as high and wide."""
    import tensorflow as tf

    folder.mkdir()
    rng = random.Random(seed)
    jpegs: list[bytes] = []
    for _ in range(min(count, DIFFERENT)):
        coarse = tf.constant([rng.randrange(256) for _ in range(30 * 40 * 3)], tf.float32, [30, 40, 3])
        fine = tf.image.resize(coarse, [240 * times, 320 * times])
        jpegs.append(tf.io.encode_jpeg(tf.cast(tf.clip_by_value(fine, 0, 255), tf.uint8), quality=90).numpy())
    for number in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"part-{number}.tfrecord")) as writer:
            for index in range(number, count, FILES):
                writer.write(index.to_bytes(4, "little") + jpegs[index % len(jpegs)])
    return sorted(str(path) for path in folder.iterdir())


def decoding(calls: Path | None = None) -> Callable[[Any], Any]:
    import tensorflow as tf

    def decode(record: tf.Tensor) -> Any:
        if calls is not None:
            tf.print("called", output_stream=f"file://{calls}")
        image = tf.io.decode_jpeg(tf.strings.substr(record, 4, -1), channels=3)
        small = tf.cast(tf.image.resize(image, [SIDE, SIDE]), tf.uint8)
        return tf.ensure_shape(small, [SIDE, SIDE, 3]), tf.io.decode_raw(tf.strings.substr(record, 0, 4), tf.int32)[0]

    return decode


def epoch_s(data: tf.data.Dataset, batches: int) -> float:
    began_s = time.perf_counter()
    iterator = iter(data)
    found = sum(1 for _ in iterator)
    took_s = time.perf_counter() - began_s
    del iterator
    gc.collect()
    assert found == batches, (found, batches)
    return took_s


def sides(base: Path, files: list[str], cache_dir: Path) -> dict[str, tf.data.Dataset]:
    import tensorflow as tf

    import tfquiver

    auto, decode = tf.data.AUTOTUNE, decoding()
    materialized = tfquiver.dataset(files, cache_dir=cache_dir, batch_size=BATCH).apply(tfquiver.materialize(decode))
    (base / "raw").mkdir()
    with tf.io.TFRecordWriter(str(base / "raw" / "part-0.tfrecord")) as writer:
        for images, labels in materialized.as_numpy_iterator():
            for image, label in zip(images, labels, strict=True):
                writer.write(image.tobytes() + label.tobytes())
    stock = tf.data.Dataset.from_tensor_slices(files).interleave(
        tf.data.TFRecordDataset, cycle_length=FILES, num_parallel_calls=auto
    )
    decoded = stock.map(decode, num_parallel_calls=auto)
    return {
        "decode": tfquiver.dataset(files, cache_dir=cache_dir).map(decode, num_parallel_calls=auto).batch(BATCH),
        "materialized": materialized,
        "raw": tfquiver.dataset(str(base / "raw" / "part-0.tfrecord"), cache_dir=cache_dir, batch_size=BATCH),
        "cache(file)": decoded.cache(str(base / "cached")).shuffle(SHUFFLE).batch(BATCH),
        "snapshot": decoded.snapshot(str(base / "snapshot")).shuffle(SHUFFLE).batch(BATCH),
    }


def job(base: Path, cache_dir: Path, calls: Path, version: str) -> float:
    """CPU seconds of making it, of all threads of this process; tracing the function, which each job does, included."""
    import tfquiver

    files = sorted(str(path) for path in base.iterdir())
    data = tfquiver.dataset(files, cache_dir=cache_dir)
    decode = decoding(calls)
    began_s = time.process_time()
    made = data.apply(tfquiver.materialize(decode, version=version))
    took_s = time.process_time() - began_s
    assert sum(1 for _ in made) == int(made.cardinality())
    return took_s


def jobs(base: Path, cache_dir: Path, count: int) -> tuple[int, float]:
    """Calls and CPU seconds of `count` jobs at once, that share nothing with those of another count."""
    calls = base / f"calls {count}"
    arguments = ["--job", str(base / "many"), str(cache_dir), str(calls), str(count)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.materialize", *arguments], env=tensorflow_env(),
            stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent,
        )
        for _ in range(count)
    ]  # fmt: skip
    cpu_s = 0.0
    for one in running:
        out, _ = one.communicate(timeout=1800)
        assert one.returncode == 0, out
        cpu_s += float(out.split()[-1])
    return len(calls.read_bytes().splitlines()), cpu_s


def measure(base: Path, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    images, rounds = (2400, 3) if quick else (6000, 5)
    node = Server(
        "tfquiver.service.node.main", [f"--cache_dir={base / 'cache'}", "--quota=16GiB"], base / "node.log"
    ).start()  # fmt: skip
    batches = -(-images // BATCH)
    try:
        data = sides(base, write_images(base / "images", images, 1), base / "cache")
        seconds: dict[str, list[float]] = {name: [] for name in data}
        for one in data.values():  # once unmeasured: fills caches
            epoch_s(one, batches)
        for _ in range(rounds):
            for name, one in data.items():
                seconds[name].append(epoch_s(one, batches))
        del data, one
        gc.collect()
        # As much preprocessing as a small data set is: tracing and asking takes each job a tenth of a second and more.
        write_images(base / "many", 300 if quick else 30_000, 2, times=1 if quick else 2)
        made = {count: jobs(base, base / "cache", count) for count in ((1, 4) if quick else (1, 4, 8))}
    finally:
        from tfquiver.node_daemon_and_notes_in_directories import endpoints

        endpoints.close_all()
        node.stop()
    rates = {name: images / statistics.median(all_s) for name, all_s in seconds.items()}
    for name, rate in rates.items():
        spread = f"{min(seconds[name]):.3f} to {max(seconds[name]):.3f} s"
        print(f"{name:14} {rate:10,.0f} images/s ({spread})", file=sys.stderr)
    figures = {
        "images": images, "kept_bytes_an_image": SIDE * SIDE * 3 + 4,
        "images_per_s": {name: round(rate) for name, rate in rates.items()},
        "jobs": {str(n): {"calls": calls, "cpu_s": round(cpu_s, 2)} for n, (calls, cpu_s) in made.items()},
    }  # fmt: skip
    bars = [
        Bar("materialized / raw records of the same bytes", rates["materialized"] / rates["raw"], 0.9),
        Bar("materialized / decoding each time", rates["materialized"] / rates["decode"], 3.0),
        Bar("materialized / the better of cache(file) and snapshot",
            rates["materialized"] / max(rates["cache(file)"], rates["snapshot"]), 1.0),
    ]  # fmt: skip
    bars += [
        Bar(f"calls of {count} jobs / of one", calls / made[1][0], 1.02, at_most=True)
        for count, (calls, _) in made.items()
        if count > 1
    ]
    if not quick:  # of so few images what each job does anyway (imports, tracing, asking) is most of it
        bars += [
            Bar(f"CPU seconds of {count} jobs' making / of one's", cpu_s / made[1][1], 1.02, at_most=True)
            for count, (_, cpu_s) in made.items()
            if count > 1
        ]
    return figures, bars


def main() -> None:
    parser = quick_parser(__doc__, "fewer images, less than 60 s")
    parser.add_argument("--job", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    if given.job:
        base, cache_dir, calls, version = given.job
        print(job(Path(base), Path(cache_dir), Path(calls), version))
        return
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as name:
        figures, bars = measure(Path(name), given.quick)
    finish("materialize", figures, bars, given.quick)


if __name__ == "__main__":
    run_bench(main)
