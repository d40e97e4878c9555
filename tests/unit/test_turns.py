"""Tests side by side: who is alone is alone, and gets its turn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import turns

CHILD = """
import sys
from tests.support.turns import turn
with turn(alone=sys.argv[1] == "alone"):
    print("in", flush=True)
    sys.stdin.readline()
"""


class Child:
    def __init__(self, how: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, turns.FOLDER: str(folder)},
        )

    def await_in(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"in\n"

    def end(self) -> bytes:
        return self.process.communicate(b"\n", timeout=30)[0]


def test_who_is_alone_is_alone_and_is_not_overtaken(tmp_path: Path) -> None:
    first = Child("shared", tmp_path)
    first.await_in()
    second = Child("shared", tmp_path)
    second.await_in()
    alone = Child("alone", tmp_path)
    # The gate is taken only while somebody waits behind it.
    while subprocess.run(["flock", "-n", str(tmp_path / "gate"), "true"]).returncode == 0:
        assert alone.process.poll() is None
    late = Child("shared", tmp_path)
    assert first.end() == b""
    second.process.kill()  # who dies has left
    second.process.communicate()
    alone.await_in()
    assert alone.end() == b""
    late.await_in()
    late.end()


def test_one_process_needs_no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(turns.FOLDER, raising=False)
    with turns.turn(alone=True), turns.turn(alone=True):
        pass
