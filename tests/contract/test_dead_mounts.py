"""A mount whose server is gone: what is asked of others is answered all the same."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.disks import dead
from tests.support.privileges import cannot_mount_dead, needs_dead_mounts
from tfquiver import errors
from tfquiver.stores import local
from tfquiver.stores.hanging_file_systems.patience import Patience
from tfquiver.stores.local import LocalStore


@needs_dead_mounts
def test_lists_and_stats_that_hang_refuse_none_of_another_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_LIST_DEADLINE_S", 0.3)
    store = LocalStore()
    store._patience = Patience(max_hung=2)
    (tmp_path / "good").write_bytes(b"x")
    with dead(tmp_path / "mount") as mount:
        for ask in (store.list, store.stat):
            with pytest.raises(errors.UnavailableError, match="no answer in"):
                ask(f"{mount}/file")
        for ask in (store.list, store.stat):
            with pytest.raises(errors.UnavailableError, match="2 calls before it hang"):
                ask(f"{mount}/file")
        monkeypatch.setattr(local, "_LIST_DEADLINE_S", 20.0)
        assert [info.size_bytes for info in store.list(f"{tmp_path}/goo*")] == [1]
        assert store.stat(f"{tmp_path}/good").size_bytes == 1
        hung = [thread for thread in threading.enumerate() if thread.name == "store call"]
    for thread in hung:
        thread.join(20)


def test_who_may_not_make_a_dead_mount_is_told_how(tmp_path: Path) -> None:
    assert "modprobe fuse" in cannot_mount_dead(str(tmp_path / "fuse"))
