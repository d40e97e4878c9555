"""How much memory node and trainer take while they read data sets that are larger than what they may keep.

Three data sets, each read by one trainer, a process of its own: one that is stored compressed, so that the node unpacks
every shard into sealed memory and keeps what `--hot` lets it; one that does not fit the node's `--quota`, so that
shards come from the store all the time; both of small records, for three epochs. And one of large records, for seven,
because what an epoch leaves behind comes on top of the epochs before. The trainer's pool is `shuffle_bytes` and
`readahead_bytes`. In the first epoch it does nothing but read, which is when a node has most to do; in the others each
step takes 10 ms, because a trainer that is faster than its source never has its pool full.

Looked at every 20 ms: a process's own pages (RssAnon), and sealed memory that it maps or holds a descriptor of. What it
had before the first record came (the interpreter, TensorFlow, code) is taken off. Configured are, for the node, `--hot`
and `--lease_ahead`; for the trainer, `shuffle_bytes` and `readahead_bytes`. Figures are MiB.

    python -m tests.bench.memory [--quick]

Bars: never more than 64 MiB above what is configured, each process. The last line is one JSON object; exit code 1 when
a bar is missed.
"""

from __future__ import annotations

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

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support.cluster import Server
from tests.support.records import stream

MIB = 1 << 20
BAR_MIB = 64.0
FILES = 8
HOT, LEASE_AHEAD, SHUFFLE, READAHEAD = 64 * MIB, 32 * MIB, 64 * MIB, 32 * MIB
FULL_BYTES, QUICK_BYTES = 1024 * MIB, 320 * MIB
LOOK_S, STEP_S = 0.02, 0.01


@dataclass(frozen=True)
class Kind:
    """A data set, and how it is read. `quota_share`: of its bytes, what the node may keep."""

    name: str
    record_bytes: int
    batch: int
    epochs: int
    compressible: bool
    quota_share: float


KINDS = (
    Kind("compressed", 16_000, 64, 3, compressible=True, quota_share=2),
    Kind("larger than the quota", 16_000, 64, 3, compressible=False, quota_share=0.25),
    Kind("large records", 110_000, 16, 7, compressible=False, quota_share=2),
)

# Says "ready" when all is there but records, and reads when it is told to.
TRAINER = f"""
import sys
import time
import tensorflow as tf
import tfquiver
def step(batch, takes_s):
    time.sleep(takes_s)
    return int(tf.shape(batch)[0])
list(tf.data.Dataset.from_tensor_slices([b"record"] * 100).batch(10).prefetch(1))
data = tfquiver.dataset(
    sys.argv[1], cache_dir=sys.argv[2], batch_size=int(sys.argv[4]), order=tfquiver.Shuffled(shuffle_bytes={SHUFFLE}),
    reading=tfquiver.Reading(readahead_bytes={READAHEAD}),
)
print("ready", flush=True)
input()
for epoch in range(int(sys.argv[5])):
    count = sum(step(batch, {STEP_S} if epoch else 0) for batch in data)
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


def write_files(folder: Path, size_bytes: int, kind: Kind) -> int:
    """The number of records in the files made."""
    folder.mkdir()
    rng = random.Random(1)
    random_bytes = kind.record_bytes // 4 if kind.compressible else kind.record_bytes
    per_file = size_bytes // FILES // kind.record_bytes
    for number in range(FILES):
        payloads = (rng.randbytes(random_bytes).ljust(kind.record_bytes, b"\0") for _ in range(per_file))
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


def measure(base: Path, size_bytes: int, kind: Kind) -> dict[str, float]:
    """The most that each process took, in MiB, beyond what it had before."""
    base.mkdir()
    cache_dir = base / "cache"
    records = write_files(base / "data", size_bytes, kind)
    quota_bytes = int(size_bytes * kind.quota_share)
    flags = [f"--cache_dir={cache_dir}", f"--quota={quota_bytes}", f"--hot={HOT}", f"--lease_ahead={LEASE_AHEAD}"]
    node = Server("tfquiver.service.node.main", flags, base / "node.log").start()
    arguments = [f"{base}/data/part-*", str(cache_dir), *map(str, (records, kind.batch, kind.epochs))]
    command = [sys.executable, "-c", TRAINER, *arguments]
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
    parser = quick_parser(__doc__, "smaller data sets, less than 60 s")
    quick = parser.parse_args().quick
    size_bytes = QUICK_BYTES if quick else FULL_BYTES
    configured = {"node": (HOT + LEASE_AHEAD) / MIB, "trainer": (SHUFFLE + READAHEAD) / MIB}
    figures = {}
    bars = []
    with tempfile.TemporaryDirectory(prefix="tfquiver-memory-") as base:
        for number, kind in enumerate(KINDS):
            took = measure(Path(base, str(number)), size_bytes, kind)
            for process, mib in took.items():
                print(f"{kind.name:22} {process:8} {mib:7.1f} MiB, configured {configured[process]:g}", file=sys.stderr)
                above = mib - configured[process]
                bars.append(Bar(f"MiB above what is configured, {kind.name}, {process}", above, BAR_MIB, at_most=True))
            figures[kind.name] = {process: round(mib, 1) for process, mib in took.items()}
    finish("memory", {"configured": configured, **figures}, bars, quick)


if __name__ == "__main__":
    run_bench(main)
