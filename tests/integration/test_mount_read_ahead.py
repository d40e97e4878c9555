"""What the kernel is told of a mount: how much it reads ahead, how many reads it may ask for at once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.cluster import wait_until
from tests.support.disks import fusectl
from tests.support.mounted import every, mounted, write_source
from tests.support.privileges import needs_fuse, needs_mounts
from tfquiver.mounting.reading_ahead import kernel_read_ahead

pytestmark = [needs_fuse]
BDI = "/sys/class/bdi/{}:{}/read_ahead_kb"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "data")


@needs_mounts
def test_the_kernel_reads_more_of_the_mount_ahead_and_of_nothing_else(tmp_path: Path, source: Path) -> None:
    below = tmp_path.stat().st_dev
    before = of_bdi(below)
    if before is None or not os.access(BDI.format(os.major(below), os.minor(below)), os.W_OK):
        pytest.skip("needs root, a /sys that can be written, and a temporary directory that is not in memory")
    with mounted(tmp_path / "mnt", tmp_path / "cache", every(source)) as mount:
        device = mount.point.stat().st_dev
        give_up_at = time.monotonic() + 30
        while of_bdi(device) != kernel_read_ahead.KIB:
            assert time.monotonic() < give_up_at, of_bdi(device)
            time.sleep(0.02)
    assert of_bdi(below) == before


@needs_mounts
def test_the_kernel_may_ask_for_more_at_once_where_fusectl_is_mounted(tmp_path: Path, source: Path) -> None:
    """Where it is not, 12 reads that hang hold those of everybody."""
    with fusectl(), mounted(tmp_path / "mnt", tmp_path / "cache", every(source)) as mount:
        number = kernel_read_ahead.connection(mount.point.stat().st_dev)
        path = Path(kernel_read_ahead.OF_CONNECTION.format(number))
        wait_until(lambda: int(path.read_text()) == kernel_read_ahead.AT_ONCE, "it has been told")


def test_a_connection_is_called_as_the_kernel_writes_its_device() -> None:
    assert kernel_read_ahead.connection(os.makedev(0, 53)) == 53
    assert kernel_read_ahead.connection(os.makedev(0, 0x123)) == 0x100023


def of_bdi(device: int) -> int | None:
    try:
        return int(Path(BDI.format(os.major(device), os.minor(device))).read_text())
    except FileNotFoundError:
        return None
