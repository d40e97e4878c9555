"""What outlives a node or an `up` in a cache directory: counters and ports. Damaged files say nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import durable, errors
from tfquiver.cli.status_tables_and_warnings.status_view import saved
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint
from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports
from tfquiver.service.node.counters import totals_file
from tfquiver.service.node.counters.totals_file import Totals

MOST = (1 << 64) - 1
COUNT = st.integers(0, MOST)
TOTALS = st.builds(Totals, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT)
DAMAGED = [b"", b"{", b"[]", b"null", b'{"version": 2}', b'{"since_s": "x"}', b"\xff\xfe",
           b'{"version": 1, "coordinator": -1}', b'{"version": 1, "coordinator": 1e999, "since_s": 1e999}',
           b"[" * 100_000]  # fmt: skip


@given(TOTALS, TOTALS)
def test_counters_add_up_and_the_first_day_stays(before: Totals, now: Totals) -> None:
    both = before.plus(now)
    assert both.since_s == (before.since_s or now.since_s)
    assert both.served_bytes == min(before.served_bytes + now.served_bytes, MOST)
    assert Totals().plus(now) == now


@pytest.mark.parametrize("bytes_", DAMAGED)
def test_damaged_files_count_as_none(bytes_: bytes, tmp_path: Path) -> None:
    (tmp_path / "totals.json").write_bytes(bytes_)
    (tmp_path / "up.json").write_bytes(bytes_)
    (tmp_path / "node.json").write_bytes(bytes_)
    assert totals_file.read(tmp_path) == Totals()
    assert up_file.read(tmp_path) == Ports()
    with pytest.raises(errors.DataLossError, match=r"node\.json is damaged"):
        read_endpoint(tmp_path)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    totals_file.write(tmp_path, Totals(1, 2, 3, 4, 5, 6))
    up_file.write(tmp_path, Ports(5040, 5050, [1, 2]))
    assert totals_file.read(tmp_path) == Totals(1, 2, 3, 4, 5, 6)
    assert up_file.read(tmp_path) == Ports(5040, 5050, [1, 2])


def test_the_dispatcher_of_a_directory_is_that_of_an_up_that_runs(tmp_path: Path) -> None:
    up_file.write(tmp_path, Ports(5040, 5050))
    with pytest.raises(errors.NotFoundError, match="start `tfquiver up"):
        up_file.dispatcher_address(tmp_path)
    lock = durable.lock_file(tmp_path / up_file.LOCK_FILE)
    assert durable.try_lock(lock)
    try:
        assert up_file.dispatcher_address(tmp_path) == "localhost:5050"
        up_file.write(tmp_path, Ports(5040))
        with pytest.raises(errors.NotFoundError, match="without a dispatcher"):
            up_file.dispatcher_address(tmp_path)
    finally:
        os.close(lock)


def test_what_was_saved_is_what_the_store_was_not_asked_for() -> None:
    one = {"since_s": 50, "served_bytes": 100, "hits": 9, "misses": 1, "store_bytes": 30, "store_requests": 4}
    other = one | {"since_s": 0, "served_bytes": 0, "hits": 0, "misses": 0}
    assert saved([one]) == {
        "bytes": 70, "requests": 6, "served_bytes": 100, "store_bytes": 30, "store_requests": 4, "since_s": 50,
    }  # fmt: skip
    assert saved([one, other])["bytes"] == 40 and saved([one, other])["since_s"] == 50
    assert saved([other])["bytes"] == saved([other])["requests"] == 0, "a scan that nobody has read yet saved nothing"
    assert saved([])["since_s"] == 0


def test_a_directory_of_another_user_is_not_called_one_where_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, most_bytes: int) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(durable, "read", refused)
    with pytest.raises(errors.PermissionError_, match="the directory is another user's"):
        read_endpoint(tmp_path)
