"""Digests built by several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.support.records import SMALL_SHARDS, stream
from tfquiver import errors
from tfquiver.listing import listing
from tfquiver.scanning import digest_build


@pytest.fixture(autouse=True)
def always_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_build, "_INLINE_BYTES", 0)


def write_files(directory: Path, count: int = 5) -> None:
    for number in range(count):
        payloads = [bytes([number, i % 256]) * (i % 90) for i in range(300 * (number + 1))]
        (directory / f"f-{number}").write_bytes(stream(payloads))


def test_processes_build_the_same_digest(tmp_path: Path) -> None:
    write_files(tmp_path)
    files = listing.expand(str(tmp_path / "f-*"))
    seen: list[digest_build.BuildProgress] = []
    several = digest_build.build(files, SMALL_SHARDS, workers=2, journal_dir=tmp_path / "journal", progress=seen.append)
    assert several.to_bytes() == digest_build.build(files, SMALL_SHARDS).to_bytes()
    assert seen[-1] == digest_build.BuildProgress(5, 5, several.size_bytes, several.size_bytes, 4500)
    again = digest_build.build(files, SMALL_SHARDS, workers=2, journal_dir=tmp_path / "journal")
    assert again.to_bytes() == several.to_bytes()
    assert multiprocessing.active_children() == []


def test_a_damaged_file_among_many_is_named(tmp_path: Path) -> None:
    write_files(tmp_path)
    path = tmp_path / "f-3"
    path.write_bytes(path.read_bytes()[:-3])
    files = listing.expand(str(tmp_path / "f-*"))
    with pytest.raises(errors.DataLossError, match=r"f-3: truncated"):
        digest_build.build(files, SMALL_SHARDS, workers=2)
    assert multiprocessing.active_children() == []


def test_a_changed_file_among_many_is_named(tmp_path: Path) -> None:
    write_files(tmp_path)
    files = listing.expand(str(tmp_path / "f-*"))
    (tmp_path / "f-2").write_bytes(stream([b"other"]))
    (tmp_path / "f-4").unlink()
    with pytest.raises(errors.StaleDigestError, match=r"f-[24]: the file (has changed|is gone)"):
        digest_build.build(files, SMALL_SHARDS, workers=2)


def test_stopping_from_progress_leaves_no_process(tmp_path: Path) -> None:
    write_files(tmp_path)

    def stop(_: digest_build.BuildProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        digest_build.build(listing.expand(str(tmp_path / "f-*")), SMALL_SHARDS, workers=2, progress=stop)
    assert multiprocessing.active_children() == []


def test_a_killed_process_is_told_and_can_be_gone_on_from(tmp_path: Path) -> None:
    write_files(tmp_path, 2)
    files = listing.expand(str(tmp_path / "f-*"))

    def kill_one(_: digest_build.BuildProgress) -> None:
        for child in psutil.Process().children():
            if "spawn_main" in " ".join(child.cmdline()):
                os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(errors.ResourceExhaustedError, match=r"a scanning process died .* fewer workers"):
        for _ in range(20):  # the processes may have been done before the first progress report
            digest_build.build(files, SMALL_SHARDS, workers=2, progress=kill_one)
