"""Several caches on one disk, each of which takes most of it for its own: `tfquiver doctor` says so."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

from tfquiver.cli.doctor import shared_disk
from tfquiver.cli.doctor.finding import Verdict
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.cluster_address import running_nodes
from tfquiver.service.node import caches_on_this_disk
from tfquiver.service.node.caches_on_this_disk import Claim

GB = 10**9


def test_three_that_each_take_most_of_what_is_free_are_warned_of() -> None:
    claims = [Claim(Path(f"/c{number}"), 80 * GB, 10 * GB * number) for number in range(3)]
    found = shared_disk.judge(claims, 100 * GB)
    assert found is not None and found.verdict is Verdict.WARN
    assert found.why == (
        "3, which may together take 210 GB more by their quotas, of 100 GB that are free (/c0 80.0 GB; /c1 70.0 GB; "
        "/c2 60.0 GB)"
    )
    assert "--quota=SIZE" in found.do


@pytest.mark.parametrize(("quota", "verdict"), [(40 * GB, Verdict.OK), (60 * GB, Verdict.WARN)])
def test_what_fits_together_is_well(quota: int, verdict: Verdict) -> None:
    found = shared_disk.judge([Claim(Path("/a"), quota, 0), Claim(Path("/b"), quota, 0)], 100 * GB)
    assert found is not None and found.verdict is verdict


def test_one_that_is_fuller_than_its_quota_takes_nothing_more() -> None:
    found = shared_disk.judge([Claim(Path("/a"), GB, 5 * GB), Claim(Path("/b"), GB, 0)], GB)
    assert found is not None and found.verdict is Verdict.OK


def test_a_cache_alone_has_no_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert shared_disk.judge([Claim(Path("/a"), 80 * GB, 0)], GB) is None
    for there in ([], [tmp_path], [tmp_path / "gone", tmp_path]):
        monkeypatch.setattr(running_nodes, "directories", lambda there=there: there)
        assert shared_disk.finding(tmp_path, "") is None


def test_who_starts_another_one_is_told_only_where_there_is_no_room_for_all() -> None:
    claims = [Claim(Path("/old"), 80 * GB, 70 * GB), Claim(Path("/new"), 80 * GB, 0)]
    assert caches_on_this_disk.warning_of(claims, 90 * GB) == ""
    assert caches_on_this_disk.warning_of(claims, 89 * GB).startswith(
        "caches on one disk: 2, which may together take 90.0 GB more by their quotas, of 89.0 GB that are free (/new "
        "80.0 GB; /old 10.0 GB): give each a quota (tfquiver up DIRECTORY --quota=SIZE, "
    )


def test_a_node_of_another_machine_shares_no_disk_here_though_its_directory_is_called_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here, beside = tmp_path / "here", tmp_path / "beside"
    for directory in (here, beside):
        directory.mkdir()
        (directory / "node_id").write_text(f"node-{directory.name}\n")
    monkeypatch.setattr(running_nodes, "directories", lambda: [beside, here])
    full = {"cache_dir": str(here), "quota_bytes": 10**12, "used_bytes": 10**11, "disk_room_bytes": 0}
    found = status.with_others(full | {"node_id": "node-here"})
    assert found["disk_shared_with"] == [str(beside)]
    assert "disk_shared_with" not in status.with_others(full | {"node_id": "node-elsewhere"})


def test_the_end_of_a_process_does_not_wait_for_the_disk_of_any_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`tfquiver up` stayed for as long as the disk of another cache hung."""
    looks, goes_on = threading.Event(), threading.Event()

    def hangs() -> list[Path]:
        looks.set()
        goes_on.wait(60)
        return []

    monkeypatch.setattr(running_nodes, "directories", hangs)

    async def told_to_stop() -> None:
        asking = asyncio.create_task(caches_on_this_disk.warning(tmp_path, ""))
        while not looks.is_set():
            await asyncio.sleep(0)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking

    ended = threading.Thread(target=lambda: asyncio.run(told_to_stop()))
    ended.start()
    ended.join(20)
    assert not ended.is_alive(), "it waits for the disk"
    goes_on.set()


def test_what_a_look_raises_is_raised_where_it_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails() -> list[Path]:
        raise ValueError("nobody thought of this")

    monkeypatch.setattr(running_nodes, "directories", fails)
    with pytest.raises(ValueError, match="nobody thought of this"):
        asyncio.run(caches_on_this_disk.warning(tmp_path, ""))
