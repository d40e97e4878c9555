"""Tests of several processes side by side: which file begins when; and some of them alone, by a lock that is shared or
had by one, and fair.

Everyone passes a gate one by one. Who is to be alone waits behind the gate, so that no others can overtake it for ever.
The locks are the kernel's: a process that dies holds nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = "TFQUIVER_TEST_TURNS"
_WAITING = ("integration", "fault")


@contextmanager
def turn(alone: bool) -> Iterator[None]:
    """Waits for this test's turn; at once when the tests run in one process."""
    if not (folder := os.environ.get(FOLDER)):
        yield
        return
    with _locked(Path(folder, "room"), alone):
        yield


def in_order_of_files(items: list[pytest.Item]) -> list[pytest.Item]:
    """The files with a test that is to be alone first, and in them that test: later all others would have to end what
    they are at, one after the other, before it. Then the files marked `long`, then those of the kinds that start
    servers and wait for them, then the others; of each those with the most tests."""
    tests = Counter(item.path for item in items)
    alone, long = ({item.path for item in items if item.get_closest_marker(mark)} for mark in ("alone", "long"))

    def place(item: pytest.Item) -> tuple[bool, bool, bool, int, Path, bool]:
        path = item.path
        order = path not in alone, path not in long, path.parent.name not in _WAITING, -tests[path], path
        return *order, not item.get_closest_marker("alone")

    return sorted(items, key=place)


@contextmanager
def _locked(room: Path, alone: bool) -> Iterator[None]:
    gate = os.open(room.with_name("gate"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    inside = os.open(room, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield
    finally:
        os.close(inside)
        os.close(gate)
