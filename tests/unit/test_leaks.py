"""The leak check itself: it must see each kind of leak, and nothing where there is none."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.support import leaks


def test_clean_test_leaves_nothing() -> None:
    before = leaks.look()
    assert leaks.await_gone(before, grace_s=0) == []


def test_running_thread_is_seen() -> None:
    before = leaks.look()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="forgotten")
    thread.start()
    try:
        (left,) = leaks.await_gone(before, grace_s=0)
        assert left.startswith("thread forgotten\n")
        assert " in wait" in left, "where it stands is said"
    finally:
        stop.set()
        thread.join()


def test_open_file_is_seen(tmp_path: Path) -> None:
    before = leaks.look()
    with (tmp_path / "open").open("w"):
        (left,) = leaks.await_gone(before, grace_s=0)
    assert left.endswith(f"{tmp_path}/open")


def test_open_socket_is_seen() -> None:
    before = leaks.look()
    with socket.socket():
        (left,) = leaks.await_gone(before, grace_s=0)
    assert "socket:" in left


def test_process_is_seen_and_ended_even_when_it_has_left_its_parent() -> None:
    before = leaks.look()
    daemonise = "import subprocess, sys; subprocess.Popen(['sleep', '60'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", daemonise], check=True)
    give_up_at = time.monotonic() + 5
    # The kernel shows no environment while a program takes the place of another.
    while not (left := leaks.await_gone(before, grace_s=0)) and time.monotonic() < give_up_at:
        pass
    assert len(left) == 1 and "sleep 60" in left[0]
    assert leaks.await_gone(before) == []
