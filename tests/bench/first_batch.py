"""How long until the first batch is there: `tfquiver.dataset` against `TFRecordDataset` over the same files.

Each row is a process of its own, forked from one that has imported TensorFlow and nothing of ours: what counts is from
the first line of user code to the first batch, `import tfquiver` included, the listing of the files on both sides. One
file, and many; with the daemon running and the data set known, with the daemon stopped (its directory as it was), and
with nothing known. In turn, medians.

    python -m tests.bench.first_batch [--quick] [--profile]

Bars: daemon running <= 50 ms more, and stopped <= 1.5 s more than TFRecordDataset. `--profile` prints where the client
spends it.
"""

from __future__ import annotations

import cProfile
import glob
import json
import os
import pstats
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support.daemons import end_daemons

RUNNING_BAR_S, STOPPED_BAR_S = 0.050, 1.5
RECORD_BYTES, RECORDS, BATCH = 1000, 64, 32
FULL_FILES, QUICK_FILES, FULL_ROUNDS, QUICK_ROUNDS = 100_000, 5_000, 7, 3

Took = tuple[float, float]  # seconds, and CPU seconds of the process


def write(directory: Path, files: int) -> Took:
    """So many, none of it counted; those of a large set are small. Imports some of our modules: in a child."""
    from tests.support import records

    count = RECORDS if files == 1 else 1
    for number in range(files):
        place = directory / f"{number // 1000:03d}"
        if number % 1000 == 0:
            place.mkdir(parents=True)
        (place / f"part-{number:06d}").write_bytes(
            records.stream((b"%08d" % number + os.urandom(RECORD_BYTES)) for _ in range(count))
        )
    return 0.0, 0.0


def first_of_stock(pattern: str) -> Took:
    import tensorflow as tf

    began, cpu_s = time.perf_counter(), time.process_time()
    next(iter(tf.data.TFRecordDataset(sorted(glob.glob(pattern))).batch(BATCH)))  # noqa: PTH207 - as users do
    return time.perf_counter() - began, time.process_time() - cpu_s


def first_of_ours(pattern: str, cache_dir: Path, profile: bool = False) -> Took:
    profiler = cProfile.Profile()
    began, cpu_s = time.perf_counter(), time.process_time()
    if profile:
        profiler.enable()
    import tfquiver

    next(iter(tfquiver.dataset(pattern, cache_dir=cache_dir, batch_size=BATCH)))
    took = time.perf_counter() - began, time.process_time() - cpu_s
    if profile:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("cumulative").print_stats(45)
    return took


def forked(work: Callable[[], Took]) -> Took:
    """Its result in a child, which ends as a user's process that needs nothing more."""
    assert not {"tfquiver", "grpc"} & sys.modules.keys(), "a row would not count what it imports"
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(theirs, json.dumps(work()).encode())
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError("a row failed, see above")
    took_s, cpu_s = json.loads(told)
    return float(took_s), float(cpu_s)


def measure(base: Path, files: int, rounds: int, profile: bool) -> dict[str, float]:
    """Medians of seconds, and of this process's CPU seconds."""
    pattern, cache_dir = f"{base}/data/*/part-*", base / "cache"
    forked(lambda: write(base / "data", files))
    took: dict[str, list[Took]] = defaultdict(list)
    try:
        for number in range(rounds):
            took["stock"].append(forked(lambda: first_of_stock(pattern)))
            if number == 0 or files == 1:  # a scan of many files is long
                end_daemons(cache_dir)
                shutil.rmtree(cache_dir, ignore_errors=True)
                took["nothing known"].append(forked(lambda: first_of_ours(pattern, cache_dir)))
            last = profile and number == rounds - 1
            took["running"].append(forked(lambda: first_of_ours(pattern, cache_dir, last)))  # noqa: B023 - called at once
            end_daemons(cache_dir)
            took["stopped"].append(forked(lambda: first_of_ours(pattern, cache_dir)))
    finally:
        end_daemons(cache_dir)
    return {
        name + what: statistics.median(each[at] for each in rows)
        for name, rows in took.items()
        for at, what in enumerate(("", ", CPU"))
    }


def main() -> None:
    parser = quick_parser(__doc__, "fewer files, less than 60 s")
    parser.add_argument("--profile", action="store_true", help="where the client's time goes, daemon running")
    arguments = parser.parse_args()
    sys.dont_write_bytecode = False  # as users' Pythons do
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")
    import tensorflow as tf

    assert tf.data  # the module loads it when it is first used
    figures: dict[str, Any] = {}
    bars = []
    rounds = QUICK_ROUNDS if arguments.quick else FULL_ROUNDS
    for files in (1, QUICK_FILES if arguments.quick else FULL_FILES):
        with tempfile.TemporaryDirectory(prefix="first-batch-") as base:
            row = figures[f"{files} files"] = measure(Path(base), files, rounds, arguments.profile)
        print(files, json.dumps({name: round(seconds, 3) for name, seconds in row.items()}), file=sys.stderr)
        for name, bar in (("running", RUNNING_BAR_S), ("stopped", STOPPED_BAR_S)):
            more_s = row[name] - row["stock"]
            bars.append(Bar(f"seconds more than TFRecordDataset, {files} files, {name}", more_s, bar, at_most=True))
    finish("first_batch", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
