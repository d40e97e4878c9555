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


@pytest.mark.slow
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


@pytest.mark.slow
def test_who_is_alone_begins_then_what_takes_minutes_then_who_waits_then_files_of_many_tests(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_few.py").write_text("def test_a(): pass\n")
    (tmp_path / "test_many.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    (tmp_path / "fault").mkdir()
    (tmp_path / "fault" / "test_waits.py").write_text("def test_a(): pass\n")
    slow = "import pytest\npytestmark = pytest.mark.long\ndef test_a(): pass\n"
    (tmp_path / "test_slow.py").write_text(slow)
    alone = "import pytest\ndef test_a(): pass\n@pytest.mark.alone\ndef test_b(): pass\n"
    (tmp_path / "test_alone.py").write_text(alone)
    (tmp_path / "conftest.py").write_text(
        "from tests.support import turns\n"
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = turns.in_order_of_files(items)\n"
    )
    root = Path(__file__).parents[2]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-c",
        str(root / "pyproject.toml"),
        str(tmp_path),
    ]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, env=env).stdout
    found = [line.rpartition("/")[2] for line in listed.splitlines() if "::" in line]
    assert found[:2] == ["test_alone.py::test_b", "test_alone.py::test_a"]
    files = [one.partition("::")[0] for one in found[2:]]
    assert files == ["test_slow.py", "test_waits.py", "test_many.py", "test_many.py", "test_few.py"]
