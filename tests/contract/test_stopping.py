"""What holds a directory's lock is ended, whoever takes the lock next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tfquiver.local_cluster import stopping

# Says who it is until it is told to end; then it is as one that has just taken the lock, and has not said so yet.
_HOLDS = """
import os, signal, sys
from tfquiver import durable
lock = durable.lock_file(sys.argv[1])
assert durable.try_lock(lock)
os.pwrite(lock, str(os.getpid()).encode(), 0)
signal.signal(signal.SIGTERM, lambda *_: os.ftruncate(lock, 0))
print("holds", flush=True)
sys.stdin.read()
"""


def test_who_is_just_starting_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    lock = tmp_path / "node.lock"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holds:
        assert holds.stdin and holds.stdout and holds.stdout.readline() == b"holds\n"
        assert stopping.holder(lock) == holds.pid
        stopping.end(lock, holds.pid, "the node", 20.0)
        holds.stdin.close()
        assert holds.wait(20) == 0
