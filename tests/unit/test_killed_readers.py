"""Who was killed, as /proc says it: also of a thread that has ended since, and of no other that has its number now."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

pytest.importorskip("trio")
killed_readers = pytest.importorskip("tfquiver.mounting.killed_readers")

PENDING, NOTHING = "0000000000000100", "0000000000000000"
READER = 700


def write(proc: Path, process: int, started: int, **pending: str) -> None:
    """`pending`: signals, by thread (t700)."""
    for name, signals in pending.items():
        for folder in (proc / name[1:], proc / str(process) / "task" / name[1:]):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "status").write_text(f"Name:\ta)\nTgid:\t{process}\nSigPnd:\t{signals}\nShdPnd:\t{PENDING}\n")
    fields = " ".join(["S", *["0"] * 18, str(started), *["0"] * 30])
    (proc / str(process) / "stat").write_text(f"{process} (a ) b) {fields}\n")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "self").symlink_to(str(os.getpid()))
    monkeypatch.setattr(killed_readers, "PROC", tmp_path)
    write(tmp_path, READER, 5, t700=NOTHING, t701=NOTHING)
    return tmp_path


def test_of_a_thread_its_process_is_looked_at(proc: Path) -> None:
    reader = killed_readers.process_of(701)
    assert reader == killed_readers.process_of(READER)
    assert killed_readers.killed([reader]) == []
    (proc / "701" / "status").unlink()
    write(proc, READER, 5, t700=NOTHING, t702=PENDING)
    assert killed_readers.killed([reader]) == [reader]


def test_another_one_of_its_number_is_not_it(proc: Path) -> None:
    reader = killed_readers.process_of(READER)
    write(proc, READER, 6, t700=PENDING)
    assert killed_readers.killed([reader]) == []


def test_of_whom_nothing_is_known(proc: Path) -> None:
    assert killed_readers.process_of(0) is None
    assert killed_readers.process_of(4711) is None
    (proc / "self").unlink()
    (proc / "self").symlink_to(str(os.getpid() + 1))  # of another PID namespace
    assert killed_readers.process_of(READER) is None


def test_as_this_machine_has_it() -> None:
    found = list[object]()
    thread = threading.Thread(target=lambda: found.append(killed_readers.process_of(threading.get_native_id())))
    thread.start()
    thread.join()
    assert found == [killed_readers.process_of(os.getpid())]
    assert found[0] is not None
    assert killed_readers.killed(found) == []
