"""What the kernel says of mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfquiver import errors
from tfquiver.cli.showing import mounts_view
from tfquiver.mounting import mount_points

MOUNTINFO = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
41 22 0:38 / /mnt/with\\040blank ro,nosuid,nodev - fuse.tfquiver train\\040set ro,user_id=0,group_id=0
42 22 0:39 / /mnt/other rw shared:3 master:1 - fuse.sshfs host:/ rw
43 22 0:40 / /mnt/x ro - fuse.tfquiver images ro
damaged line - fuse.tfquiver
"""


def test_those_of_data_sets_are_found() -> None:
    found = mount_points.mounts(MOUNTINFO)
    assert [(one.path, one.name) for one in found] == [("/mnt/with blank", "train set"), ("/mnt/x", "images")]


def test_status_says_which_are_stale() -> None:
    told = [
        {"path": "/mnt/a", "dataset": "train", "trouble": ""},
        {"path": "/mnt/b", "dataset": "images", "trouble": "stale"},
        {"path": "/mnt/c", "dataset": "text", "trouble": "does not answer"},
    ]
    assert mounts_view.lines(told) == ["mounted here: train at /mnt/a"]
    stale, silent = mounts_view.problems(told)
    assert "tfquiver unmount /mnt/b" in stale
    assert silent == "the mount at /mnt/c (text): does not answer"


def test_nothing_is_mounted_there(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="no data set is mounted there"):
        mount_points.unmount(tmp_path)
    assert mount_points.at(tmp_path) is None
