"""How a mount's process finds out that the mount was taken away: by a look at the table of mounts when it changes."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.privileges import needs_mounts
from tfquiver.mounting import mount_points

trio = pytest.importorskip("trio")
testing = pytest.importorskip("trio.testing")
taken_away = pytest.importorskip("tfquiver.mounting.taken_away")

NOWHERE = mount_points.Mount("/nowhere", "data", "0:0")


def mount(path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)


def unmount(path: Path) -> None:
    subprocess.run(["umount", path], check=True)


@needs_mounts
def test_a_change_is_told_once(tmp_path: Path) -> None:
    with taken_away.Changes() as changes:
        assert not changes.any()
        for change in (mount, unmount):
            change(tmp_path)
            assert changes.any()
            assert not changes.any()


@pytest.mark.slow
@needs_mounts
def test_the_table_is_read_when_it_has_changed_and_never_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 10 000 mounts a look takes 20 ms, in which nobody's read would be answered."""
    real, readers, ended = mount_points.mounts, list[threading.Thread](), list[bool]()

    def counted(mountinfo: str | None = None) -> list[mount_points.Mount]:
        readers.append(threading.current_thread())
        return real(mountinfo)

    async def elsewhere(call: Callable[[], bool], **_: Any) -> bool:  # trio's own threads stay for a while
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(call).result()

    async def look() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(taken_away.waited_for, NOWHERE, lambda: True, lambda: ended.append(True))
            await trio.sleep(100)
            assert len(readers) == 1
            mount(tmp_path)
            try:
                await trio.sleep(100)
                assert len(readers) == 2
            finally:
                unmount(tmp_path)
            nursery.cancel_scope.cancel()

    monkeypatch.setattr(mount_points, "mounts", counted)
    monkeypatch.setattr(trio.to_thread, "run_sync", elsewhere)
    trio.run(look, clock=testing.MockClock(autojump_threshold=0.01))
    assert threading.main_thread() not in readers
    assert not ended, "something is open there"
