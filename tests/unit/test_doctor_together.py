"""`tfquiver doctor` does not wait for one thing after the other, nor twice for one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfquiver.cli.doctor import as_status_says, cluster, command, disk
from tfquiver.cli.doctor.finding import Finding, Verdict, fail, ok


def findings(monkeypatch: pytest.MonkeyPatch, first: Finding, where: str) -> tuple[list[str], int]:
    asked = 0

    def says(address: str, token: str) -> Iterator[Finding]:
        nonlocal asked
        asked += 1
        return iter([ok("as status says", "no problem")])

    monkeypatch.setattr(cluster, "findings", lambda address, token, up, again: iter([first]))
    monkeypatch.setattr(as_status_says, "findings", says)
    return [one.what for one in command._of_cluster(where, "")], asked


def test_a_coordinator_that_does_not_answer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    what = "coordinator localhost:1"
    assert findings(monkeypatch, fail(what, "does not answer", "start it"), "localhost:1") == ([what], 0)
    assert findings(monkeypatch, ok(what, "answers"), "localhost:1") == ([what, "as status says"], 1)


def test_a_node_and_its_coordinator_are_waited_for_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    both = threading.Barrier(2)

    def quota(directory: Path, token: str) -> tuple[int, int]:
        both.wait(20)
        return 0, 0

    def address(where: str) -> str:
        both.wait(20)
        return "localhost:1"

    monkeypatch.setattr(command, "_quota", quota)
    monkeypatch.setattr(command, "coordinator_address", address)
    monkeypatch.setattr(disk, "findings", lambda directory, quota_bytes, used_bytes: iter([ok("room", "enough")]))
    what = "coordinator localhost:1"
    found, _ = findings(monkeypatch, ok(what, "answers"), str(tmp_path))
    assert found == ["room", what, "as status says"]


def test_of_a_directory_that_is_none_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, why, do in (
        ("nothing", "there is no such directory", "that uses it makes it; else name another one, or a coordinator's"),
        ("file", "it is a file", "name a directory, or a coordinator's host:port"),
        ("zero\0byte", "embedded null byte", "name a directory that this user may look at"),
    ):
        [found] = command._of_cluster(str(tmp_path / name), "")
        assert (found.verdict, found.why) == ("fail", why) and do in found.do


def test_a_disk_that_no_mount_says_is_not_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\n")  # all that is listed in a chroot without mounts
    monkeypatch.setattr(disk, "MOUNTS", tmp_path / "mounts")
    found = disk._kind(tmp_path)
    assert (found.verdict, found.why.partition(":")[0]) == (Verdict.SKIP, "cannot be seen from here")
