"""What a coordinator or a dispatcher says of itself in its directory, and what is made of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tfquiver import durable, errors
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.node_daemon_and_notes_in_directories import server_file


def held(path: Path, text: str) -> int:
    lock = durable.lock_file(path)
    assert durable.try_lock(lock)
    os.pwrite(lock, text.encode(), 0)
    return lock


def test_its_directory_leads_to_the_coordinator_while_it_runs(tmp_path: Path) -> None:
    server_file.write(tmp_path, "coordinator", "localhost:5040")
    again = f"tfquiver-coordinator --work_dir={tmp_path}, with the flags that it had, starts it again$"
    with pytest.raises(errors.NotFoundError, match=again):
        coordinator_address(str(tmp_path))
    lock = held(tmp_path / "lock", json.dumps({"pid": os.getpid(), "host": "h"}))
    try:
        assert coordinator_address(str(tmp_path)) == "localhost:5040"
        running = server_file.running(tmp_path)
        assert running is not None and running.called == f"coordinator (pid {os.getpid()})"
    finally:
        os.close(lock)
    assert server_file.running(tmp_path) is None


def test_that_of_a_dispatcher_to_its_coordinator(tmp_path: Path) -> None:
    server_file.write(tmp_path, "dispatcher", "localhost:5050", "c:5040,d:5040")
    lock = held(tmp_path / "dispatcher.lock", f"{os.getpid()}\n")
    try:
        assert coordinator_address(str(tmp_path)) == "c:5040,d:5040"
    finally:
        os.close(lock)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"version": 2}', '{"version": 1, "server": "node"}',
     '{"version": 1, "server": "coordinator", "pid": 1, "host": "h", "address": "\\u001b[2K", "coordinator": "a:1"}',
     '{"version": 1, "server": "coordinator", "pid": 1e999, "host": "h", "address": "a:1", "coordinator": "a:1"}'],
)  # fmt: skip
def test_what_says_nothing_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / server_file.FILE).write_text(text)
    assert server_file.read(tmp_path) is None


def test_where_it_is_reached() -> None:
    hosts = ("127.0.0.1", "0.0.0.0", "[::]", "10.0.0.1", "::1")
    assert [server_file.reached_at(host, 5) for host in hosts] == [
        "localhost:5", "localhost:5", "localhost:5", "10.0.0.1:5", "localhost:5"
    ]  # fmt: skip
