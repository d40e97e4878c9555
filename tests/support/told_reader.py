"""A reader in a process of its own that goes on with an epoch when it is told to, by a line: both of its sides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence


def read(epoch: Iterator[Sequence[bytes]]) -> list[int]:
    """In that process: says that it is in it, which is when it has had a batch, and reads the rest when it is told."""
    found = _numbers(next(epoch))
    print("in", flush=True)
    sys.stdin.readline()
    for batch in epoch:
        found += _numbers(batch)
    return found


def told(child: subprocess.Popen[str]) -> str:
    """What it answers to a line."""
    tell(child)
    return answer(child)


def tell(child: subprocess.Popen[str]) -> None:
    assert child.stdin
    child.stdin.write("\n")
    child.stdin.flush()


def answer(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    return child.stdout.readline().strip()


def _numbers(batch: Sequence[bytes]) -> list[int]:
    return [int.from_bytes(bytes(record)[:8], "little") for record in batch]
