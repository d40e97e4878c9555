"""How much padding `homogeneous=True` saves on a data set that is stored sorted by length.

Two readings of the same records through one node, both shuffled: from anywhere, and from one stripe unit at a time. A
batch is padded to its longest record; the waste is the share of the padded bytes that are padding. Lengths are
log-normal, as those of sentences and clips tend to be. Both readings check that every record comes exactly once an
epoch.

Bars: homogeneous batches waste at most a quarter of what the others do, and no more of them hold records of units far
apart than there are places where one unit ends and another begins: at most one in eight.

    python -m tests.bench.homogeneous [--quick]
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

from tests.bench.bars import Bar, finish, run_bench

FILES = 4
BATCHES = (32, 128)
LONGEST = 8000
SHUFFLE_BYTES, READAHEAD_BYTES = 2 << 20, 1 << 20
MOST_WASTE = 0.25  # of the waste of plain shuffling
MOST_MIXED = 0.14
_NUMBER = struct.Struct("<Q")
Lengths = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Seen:
    waste: float
    mixed: float
    records_per_s: float


def lengths_of(records: int, seed: int) -> Lengths:
    drawn = np.random.default_rng(seed).lognormal(6.0, 0.9, records)
    return np.sort(np.clip(drawn, _NUMBER.size, LONGEST).astype(np.int64))


def write(folder: Path, lengths: Lengths) -> list[Path]:
    """The i-th record holds its number, and has the i-th length."""
    import tensorflow as tf

    folder.mkdir()
    paths = []
    for part, numbers in enumerate(np.array_split(np.arange(len(lengths)), FILES)):
        paths.append(folder / f"part-{part:02}")
        with tf.io.TFRecordWriter(str(paths[-1])) as out:
            for number in numbers.tolist():
                out.write(_NUMBER.pack(number).ljust(int(lengths[number]), b"x"))
    return paths


def read(paths: list[Path], cache_dir: Path, lengths: Lengths, batch: int, homogeneous: bool, epochs: int) -> Seen:
    import tfquiver

    data = tfquiver.dataset(
        paths,
        cache_dir=cache_dir,
        first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(20_000, 50_000, 100_000)),
        batch_size=batch,
        order=tfquiver.Shuffled(shuffle_bytes=SHUFFLE_BYTES, homogeneous=homogeneous),
        reading=tfquiver.Reading(readahead_bytes=READAHEAD_BYTES),
    )
    units = min(64, len(lengths) // (8 * batch))
    before = np.cumsum(lengths)
    padded = used = mixed = batches = 0
    began = time.perf_counter()
    for _ in range(epochs):
        seen = []
        for records in data.as_numpy_iterator():
            numbers = np.array([_NUMBER.unpack_from(record)[0] for record in records])
            seen.append(numbers)
            here = lengths[numbers]
            padded, used = padded + len(here) * int(here.max()), used + int(here.sum())
            # A unit is a 64th of the data set's shards, or more where that would not hold eight batches.
            mixed, batches = mixed + bool(np.ptp(before[numbers]) > 2 * before[-1] / units), batches + 1
        if not np.array_equal(np.sort(np.concatenate(seen)), np.arange(len(lengths))):
            raise RuntimeError("not every record came exactly once")
    elapsed_s = time.perf_counter() - began
    return Seen(1 - used / padded, mixed / batches, epochs * len(lengths) / elapsed_s)


def run(folder: Path, records: int, epochs: int) -> tuple[dict[str, object], list[Bar]]:
    from tfquiver.node_daemon_and_notes_in_directories import daemon as local
    from tfquiver.node_daemon_and_notes_in_directories import endpoints

    lengths = lengths_of(records, seed=1)
    paths = write(folder / "data", lengths)
    cache_dir = folder / "cache"
    endpoints.acquire("bench", functools.partial(local.find_or_start, cache_dir, 1 << 30), _NoOp())
    figures: dict[str, object] = {"records": records, "bytes": int(lengths.sum()), "epochs": epochs}
    bars = []
    try:
        for batch in BATCHES:
            plain = read(paths, cache_dir, lengths, batch, homogeneous=False, epochs=epochs)
            alike = read(paths, cache_dir, lengths, batch, homogeneous=True, epochs=epochs)
            print(f"batches of {batch}: plain {plain}, homogeneous {alike}", file=sys.stderr)
            for name, seen in (("plain", plain), ("homogeneous", alike)):
                figures[f"{name}_waste_{batch}"] = round(seen.waste, 4)
                figures[f"{name}_mixed_{batch}"] = round(seen.mixed, 4)
                figures[f"{name}_records_per_s_{batch}"] = round(seen.records_per_s)
            share = alike.waste / plain.waste
            bars.append(Bar(f"padding of homogeneous to plain batches of {batch}", share, MOST_WASTE, at_most=True))
            bars.append(Bar(f"mixed batches of {batch}", alike.mixed, MOST_MIXED, at_most=True))
    finally:
        endpoints.close_all()
        daemon = psutil.Process(int(json.loads((cache_dir / "node.json").read_text())["pid"]))
        daemon.terminate()
        daemon.wait(10)
    return figures, bars


class _NoOp:
    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None: ...


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with tempfile.TemporaryDirectory(prefix="tfquiver-homogeneous-") as folder:
        figures, bars = run(Path(folder), 40_000 if quick else 200_000, 1 if quick else 3)
    finish("homogeneous", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
