"""A process that materializes numbered records with a function whose calls are counted, and reads an epoch.

`python -m tests.support.materializing CACHE_DIR CALLS FILE...`; prints how many records it read, and how many shards it
computed; with --slow_s each record takes so long.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tfquiver
from tests.support import warm
from tests.support.cluster import die_with_parent, tensorflow_env
from tfquiver import CutPolicy

CUT = CutPolicy(5_000, 10_000, 20_000)


def first_use() -> tfquiver.FirstUse:
    return tfquiver.FirstUse(cut=CUT)


def counted(calls: Path, slow_s: float = 0.0) -> Callable[[Any], Any]:
    """Record -> its number. Each call adds a line to the file `calls`, in whatever process it is."""
    import tensorflow as tf

    def number_of(record: tf.Tensor) -> tf.Tensor:
        tf.print("called", output_stream=f"file://{calls}")
        found = tf.io.decode_raw(tf.strings.substr(record, 0, 8), tf.int64)[0]
        if not slow_s:
            return found
        # No op sleeps: it counts. About a tenth of a microsecond and more a step.
        steps = int(slow_s * 1e5)
        counted = tf.while_loop(lambda step: step < steps, lambda step: [step + 1], [0])[0]
        return found + tf.cast(counted - steps, tf.int64)

    return number_of


def calls_in(calls: Path) -> int:
    return len(calls.read_bytes().splitlines()) if calls.exists() else 0


def start(cache_dir: Path, calls: Path, paths: list[Path], slow_s: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.materializing", str(cache_dir), str(calls), *map(str, paths)]
    return warm.Popen(
        [*command, f"--slow_s={slow_s}"], warm_kind="tensorflow", env=tensorflow_env(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent,
    )  # fmt: skip


def outcome(process: subprocess.Popen[str], deadline_s: float = 300.0) -> int:
    """The records that it read, each once. Raises when it failed."""
    out, err = process.communicate(timeout=deadline_s)
    found = re.search(r"read (\d+) records", out)
    assert process.returncode == 0 and found, f"{out}\n{err[-4000:]}"
    return int(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache_dir", type=Path)
    parser.add_argument("calls", type=Path)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--slow_s", type=float, default=0.0)
    given = parser.parse_args()
    data = tfquiver.dataset(given.paths, cache_dir=given.cache_dir, first_use=first_use())
    data = data.apply(tfquiver.materialize(counted(given.calls, given.slow_s)))
    numbers = [int(number) for number in data.as_numpy_iterator()]
    assert sorted(numbers) == list(range(len(numbers)))
    print(f"read {len(numbers)} records", flush=True)


if __name__ == "__main__":
    main()
