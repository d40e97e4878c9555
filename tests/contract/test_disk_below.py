"""The disk that `tfquiver doctor` looks at, on this machine's own devices."""

from __future__ import annotations

from pathlib import Path

from tests.support.disks import ext4
from tests.support.privileges import needs_disks
from tfquiver.cli.doctor import disk as cache_disk
from tfquiver.cli.doctor import wear
from tfquiver.cli.doctor.finding import Verdict


@needs_disks
def test_a_file_system_in_a_file_is_on_the_disk_of_the_file(tmp_path: Path) -> None:
    with ext4(tmp_path) as disk:
        device, _ = cache_disk._mounted(disk.path)
        mine = wear.disk_of(tmp_path, "none")
        assert wear.disk_of(disk.path, device) == wear.disk_of(disk.path, "none") == mine
        assert mine is None or not mine.name.startswith("loop")


def test_of_memory_nobody_knows_a_disk(tmp_path: Path) -> None:
    found = cache_disk._endurance(Path("/dev/shm"))
    assert (found.verdict, found.what) == (Verdict.SKIP, "SSD wear")
    assert "tmpfs" in found.why
