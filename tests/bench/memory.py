"""How much memory node and trainer take while they read data sets that are larger than what they may keep.

Two data sets, each read for two epochs by one trainer, a process of its own: one that is stored compressed, so that the
node unpacks every shard into sealed memory and keeps what `--hot` lets it; and one that does not fit the node's
`--quota`, so that shards come from the store all the time. The trainer's pool is `shuffle_bytes` and `readahead_bytes`.

Looked at every 20 ms: a process's own pages (RssAnon), and sealed memory that it maps or holds a descriptor of. What it
had before the first record came (the interpreter, TensorFlow, code) is taken off. Configured are, for the node, `--hot`
and `--lease_ahead`; for the trainer, `shuffle_bytes` and `readahead_bytes`. Figures are MiB.

    python -m tests.bench.memory [--quick]

Bars: never more than 64 MiB above what is configured, each process. The last line is one JSON object; exit code 1 when
a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.bars import Bar, finish, run_bench
from tests.support.cluster import Server
from tests.support.records import stream

MIB = 1 << 20
BAR_MIB = 64.0
FILES, RECORD_BYTES, BATCH, EPOCHS = 8, 16_000, 64, 2
HOT, LEASE_AHEAD, SHUFFLE, READAHEAD = 64 * MIB, 32 * MIB, 64 * MIB, 32 * MIB
FULL_BYTES, QUICK_BYTES = 1024 * MIB, 320 * MIB
LOOK_S = 0.02

# Says "ready" when all is there but records, and reads when it is told to.
TRAINER = f"""
import sys
import tensorflow as tf
import tfquiver
list(tf.data.Dataset.from_tensor_slices([b"record"] * 100).batch(10).prefetch(1))
data = tfquiver.dataset(
    sys.argv[1], cache_dir=sys.argv[2], batch_size={BATCH}, order=tfquiver.Shuffled(shuffle_bytes={SHUFFLE}),
    reading=tfquiver.Reading(readahead_bytes={READAHEAD}),
)
print("ready", flush=True)
input()
for _ in range({EPOCHS}):
    count = sum(int(tf.shape(batch)[0]) for batch in data)
    assert count == int(sys.argv[3]), count
print("read", flush=True)
input()
"""


@dataclass
class Peak:
    """Of one process. `before`: bytes at the first look."""

    pid: int
    before: int = field(init=False)
    most: int = 0

    def __post_init__(self) -> None:
        self.before = memory_bytes(self.pid)

    def look(self) -> None:
        self.most = max(self.most, memory_bytes(self.pid) - self.before)


def memory_bytes(pid: int) -> int:
    """Its own, and sealed: what is mapped and what a descriptor holds may be the same, and count once."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    own, mapped = (int(status[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))
    held: dict[int, int] = {}
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed by now
            if "memfd:" in str(descriptor.readlink()):
                found = descriptor.stat()
                held[found.st_ino] = found.st_blocks * 512
    return own + max(mapped, sum(held.values()))


def write_files(folder: Path, size_bytes: int, compressible: bool) -> int:
    """The number of records in the files made."""
    folder.mkdir()
    rng = random.Random(1)
    random_bytes = RECORD_BYTES // 4 if compressible else RECORD_BYTES
    per_file = size_bytes // FILES // RECORD_BYTES
    for number in range(FILES):
        payloads = (rng.randbytes(random_bytes).ljust(RECORD_BYTES, b"\0") for _ in range(per_file))
        (folder / f"part-{number}.tfrecord").write_bytes(stream(payloads))
    return per_file * FILES


def watched(peaks: list[Peak], work: Callable[[], None]) -> None:
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            for peak in peaks:
                peak.look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        over.set()
        watcher.join()


def measure(base: Path, size_bytes: int, compressible: bool, quota_bytes: int) -> dict[str, float]:
    """The most that each process took, in MiB, beyond what it had before."""
    base.mkdir()
    cache_dir = base / "cache"
    records = write_files(base / "data", size_bytes, compressible)
    flags = [f"--cache_dir={cache_dir}", f"--quota={quota_bytes}", f"--hot={HOT}", f"--lease_ahead={LEASE_AHEAD}"]
    node = Server("tfquiver.service.node.main", flags, base / "node.log").start()
    command = [sys.executable, "-c", TRAINER, f"{base}/data/part-*", str(cache_dir), str(records)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    trainer = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=Path.cwd()
    )
    assert trainer.stdin is not None and trainer.stdout is not None
    try:
        _expect(trainer, "ready")
        peaks = {"node": Peak(node.process.pid), "trainer": Peak(trainer.pid)}

        def read() -> None:
            _tell(trainer)
            _expect(trainer, "read")

        watched(list(peaks.values()), read)
        _tell(trainer)
        trainer.wait(60)
    finally:
        trainer.kill()
        trainer.wait()
        node.stop()
    return {name: peak.most / MIB for name, peak in peaks.items()}


def _tell(trainer: subprocess.Popen[str]) -> None:
    assert trainer.stdin is not None
    trainer.stdin.write("\n")
    trainer.stdin.flush()


def _expect(trainer: subprocess.Popen[str], word: str) -> None:
    assert trainer.stdout is not None
    if (said := trainer.stdout.readline().strip()) != word:
        raise RuntimeError(f"the trainer said {said!r}, not {word!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller data sets, less than 60 s")
    quick = parser.parse_args().quick
    size_bytes = QUICK_BYTES if quick else FULL_BYTES
    configured = {"node": (HOT + LEASE_AHEAD) / MIB, "trainer": (SHUFFLE + READAHEAD) / MIB}
    kinds = {"compressed": (True, 2 * size_bytes), "larger than the quota": (False, size_bytes // 4)}
    figures = {}
    bars = []
    with tempfile.TemporaryDirectory(prefix="tfquiver-memory-") as base:
        for number, (kind, (compressible, quota_bytes)) in enumerate(kinds.items()):
            took = measure(Path(base, str(number)), size_bytes, compressible, quota_bytes)
            for process, mib in took.items():
                print(f"{kind:22} {process:8} {mib:7.1f} MiB, configured {configured[process]:g}", file=sys.stderr)
                above = mib - configured[process]
                bars.append(Bar(f"MiB above what is configured, {kind}, {process}", above, BAR_MIB, at_most=True))
            figures[kind] = {process: round(mib, 1) for process, mib in took.items()}
    finish("memory", {"configured": configured, **figures}, bars, quick)


if __name__ == "__main__":
    run_bench(main)
