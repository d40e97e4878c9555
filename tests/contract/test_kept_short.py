"""Logs of what runs in the background are two files of a bounded length, however many processes write them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cluster import wait_until
from tfquiver.log_files_and_lines import kept_short, log_file

MOST = 1000
LINE = b"a line of a library in C++, to standard error\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(log_file, "MOST_BYTES", MOST)
    return tmp_path / "node.log"


@pytest.fixture
def writers(log: Path) -> Iterator[list[int]]:
    """Standard errors of two processes, as they were started."""
    files = [log_file.opened(log) for _ in range(2)]
    yield [file.fileno() for file in files]
    for file in files:
        file.close()


def test_it_is_two_files_and_nothing_newer_is_lost(log: Path, writers: list[int]) -> None:
    old = log.with_name("node.log.old")
    for number in range(200):
        for writer in writers:
            os.write(writer, b"%06d " % number + LINE)
            kept_short.look(log, writer)
        assert all(path.stat().st_size <= MOST + 2 * len(LINE) + 14 for path in (log, old) if path.exists())
    assert sorted(path.name for path in log.parent.iterdir()) == ["node.log", "node.log.old"]
    lines = (old.read_bytes() + log.read_bytes()).splitlines()
    numbers = [int(line[:6]) for line in lines]
    assert numbers == [number for number in range(200) for _ in writers][-len(numbers) :]


def test_of_several_that_see_it_one_puts_it_aside(log: Path) -> None:
    """The second would have put the new one, with a few lines, in the place of the old one."""
    log.write_bytes(LINE * 100)
    together = threading.Barrier(8)

    def starts(number: int) -> None:
        together.wait(10)
        with log_file.opened(log) as file:
            file.write(b"%d\n" % number)
            file.flush()
            kept_short.look(log, file.fileno())

    for _ in range(20):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(starts, range(8)))
        kept = log.with_name("node.log.old").read_bytes() + log.read_bytes()
        assert kept.startswith(LINE * 100)
        assert sorted(kept[len(LINE * 100) :].split()) == [b"%d" % number for number in range(8)]
        log.write_bytes(LINE * 100)


def test_a_log_that_was_deleted_is_begun_anew_and_no_link_is_followed(log: Path, writers: list[int]) -> None:
    log.unlink()
    kept_short.look(log, writers[0])
    os.write(writers[0], b"here\n")
    assert log.read_bytes() == b"here\n"
    log.unlink()
    log.symlink_to(log.with_name("elsewhere"))
    with pytest.raises(OSError):
        kept_short.look(log, writers[0])
    assert not log.with_name("elsewhere").exists()


def test_a_process_keeps_its_own_log_short_and_the_next_one_goes_on_after_a_kill(tmp_path: Path) -> None:
    log, old = tmp_path / "node.log", tmp_path / "node.log.old"
    code = (
        "import os; from tfquiver.log_files_and_lines import kept_short, log_file\n"
        "log_file.MOST_BYTES = 100_000\nkept_short._LOOK_S = 0.01\nkept_short.begin()\n"
        "assert kept_short.VARIABLE not in os.environ\n"
        "import time\nwhile True:\n    os.write(2, b'x' * 99 + b'\\n'); time.sleep(0.0005)"
    )
    for _ in range(2):
        before = old.stat().st_ino if old.exists() else 0
        with log_file.opened(log) as stderr, subprocess.Popen(
            [sys.executable, "-c", code], stderr=stderr, env={**os.environ, kept_short.VARIABLE: str(log)}
        ) as writer:  # fmt: skip
            try:
                wait_until(lambda before=before: old.exists() and old.stat().st_ino != before, "it is put aside")
            finally:
                writer.send_signal(signal.SIGKILL)
        assert old.stat().st_size < 1_000_000, "what comes until the next look is on top"


def test_who_logs_elsewhere_is_left_alone(log: Path, tmp_path: Path) -> None:
    """Standard error of this process is no such file, whatever its environment says."""
    log.write_bytes(LINE)
    before = threading.active_count()
    for text in (str(log), "", str(tmp_path), str(tmp_path / "gone")):
        environment = {kept_short.VARIABLE: text}
        kept_short.begin(environment)
        assert (environment, threading.active_count()) == ({}, before)
