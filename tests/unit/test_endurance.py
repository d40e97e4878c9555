"""What `tfquiver doctor` says of a disk's wear: by the disk's own count, by what is written, or that nobody knows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfquiver.cli.doctor import endurance, wear
from tfquiver.cli.doctor.endurance import Disk, Wear, Written
from tfquiver.cli.doctor.finding import Verdict
from tfquiver.service.node.counters import totals_file
from tfquiver.service.node.counters.totals_file import Totals

DAY_S, GB, TB = 86_400, 10**9, 10**12
MUTE = Disk("sda", TB, unknown="it does not say")


@pytest.mark.parametrize(
    ("disk", "written", "verdict", "says"),
    [
        (Disk("nvme0n1", TB, Wear(0.03, 300)), None, Verdict.OK, "3% of what may be written to nvme0n1 in its life"),
        (Disk("nvme0n1", TB, Wear(0.85, 3000)), None, Verdict.WARN, "85%"),
        (Disk("nvme0n1", TB, Wear(1.2, 3000)), None, Verdict.WARN, "120%"),
        (Disk("nvme0n1", TB, Wear(0.3, 100)), None, Verdict.WARN, "in 100 days: the rest is for 233 days"),
        (Disk("nvme0n1", TB, Wear(0.01, 1)), None, Verdict.OK, "1%"),  # a per cent too few to tell
        (Disk("nvme0n1", TB, Wear(0.1, 10, "it is read-only")), None, Verdict.WARN, "says that it is read-only"),
        (Disk("nvme0n1", TB, Wear(0.1)), Written(2 * TB, 10 * DAY_S), Verdict.OK, "the cache writes 200 GB a day"),
        (MUTE, Written(10 * TB, 10 * DAY_S), Verdict.WARN, "1.0 TB a day, 1 times what sda holds (it does not say)"),
        (MUTE, Written(2 * TB, 10 * DAY_S), Verdict.OK, "200 GB a day, 0.2 times what sda holds"),
        (MUTE, Written(10 * TB, DAY_S - 1), Verdict.SKIP, "not counted for a day, but for 24 h"),
        (MUTE, None, Verdict.SKIP, "sda: it does not say; what the cache writes"),
        (Disk("vda", TB, virtual=True), Written(10 * TB, 10 * DAY_S), Verdict.SKIP, "1.0 TB a day"),
        (
            Disk("vda", TB, virtual=True),
            None,
            Verdict.SKIP,
            "vda is the disk of a virtual machine",
        ),
    ],
)
def test_who_is_warned(disk: Disk, written: Written | None, verdict: Verdict, says: str) -> None:
    found = endurance.judge(disk, written)
    assert found.verdict is verdict, found
    assert says in found.why
    assert bool(found.do) == (verdict is not Verdict.OK)


def page(**at: int) -> bytes:
    """A health log: bytes by their offset, numbers of 16 bytes."""
    made = bytearray(512)
    for name, value in at.items():
        offset = int(name[1:])
        made[offset : offset + (16 if offset >= 32 else 1)] = value.to_bytes(16 if offset >= 32 else 1, "little")
    return bytes(made)


def test_a_health_log_of_nvme() -> None:
    assert wear.health(page(_3=100, _5=17, _128=48)) == Wear(0.17, 2.0)
    assert wear.health(page(_0=0b1001, _5=255)).failing == "its spare blocks run out and it is read-only"
    assert wear.health(page(_0=0b10, _5=1)).failing == "", "it is hot, which passes"
    for bad in (bytes(512), b"", bytes(100)):
        with pytest.raises(ValueError, match="empty"):
            wear.health(bad)


def test_the_life_of_an_emmc() -> None:
    assert wear.life_time("0x01 0x03\n") == Wear(0.3)
    assert wear.life_time("0x0b 0x01\n") == Wear(1.1)
    for bad in ("0x00 0x00", "", "?", "0xff 0x01"):
        with pytest.raises(ValueError):
            wear.life_time(bad)


class Sys:
    """The kernel's files about block devices, of which the directory that is asked for is on the first."""

    def __init__(self, base: Path) -> None:
        self.root = base / "sys"
        (self.root / "dev" / "block").mkdir(parents=True)
        self._number = base.stat().st_dev

    def add(self, path: str, first: bool = False, **files: str) -> Path:
        block = self.root / "devices" / path
        block.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (block / name).write_text(text)
        if first:
            name = f"{os.major(self._number)}:{os.minor(self._number)}"
            (self.root / "dev" / "block" / name).symlink_to(block)
        return block


def test_the_disk_of_a_partition_of_a_volume(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    disk = sys.add("mmc/mmcblk0", size="2000\n")
    part = sys.add("mmc/mmcblk0/mmcblk0p2", partition="2\n", size="100\n")
    (disk / "device").mkdir()
    volume = sys.add("virtual/block/dm-0", first=True, size="90\n")
    (volume / "slaves").mkdir()
    (volume / "slaves" / "mmcblk0p2").symlink_to(part)
    found = wear.disk_of(tmp_path, "none", sys.root)
    assert found == Disk("mmcblk0", 1_024_000, unknown="its count cannot be read: No such file or directory")
    (disk / "device" / "life_time").write_text("0x02 0x01\n")
    assert wear.disk_of(tmp_path, "none", sys.root) == Disk("mmcblk0", 1_024_000, Wear(0.2))


def test_a_device_that_is_not_in_dev_is_found_by_its_number(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.add("virtual/block/vda", first=True, size="2000\n")
    assert wear.disk_of(tmp_path, "/dev/there-is-none", sys.root) == Disk("vda", 1_024_000, virtual=True)


def test_what_cannot_be_asked_is_not_known(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    assert wear.disk_of(tmp_path, "none", sys.root) is None
    assert wear.disk_of(tmp_path, "/dev/null", sys.root) is None
    sys.add("nvme/nvme0n1", first=True, size="2000\n")
    found = wear.disk_of(tmp_path, "none", sys.root, tmp_path)
    assert found == Disk("nvme0n1", 1_024_000, unknown="its count cannot be read: No such file or directory")
    (tmp_path / "nvme0n1").touch()
    found = wear.disk_of(tmp_path, "none", sys.root, tmp_path)
    assert found == Disk("nvme0n1", 1_024_000, unknown="its count cannot be read: Inappropriate ioctl for device")


def test_what_was_written_is_counted_from_when_it_is(tmp_path: Path) -> None:
    (tmp_path / "totals.json").write_text(
        '{"since_s": 5, "served_bytes": 1, "hits": 1, "misses": 1, "store_bytes": 1, "store_requests": 1}'
    )
    older = totals_file.read(tmp_path)
    assert older == Totals(5, 1, 1, 1, 1, 1)
    both = older.plus(Totals(100, 1, 1, 1, 1, 1, written_bytes=7, written_since_s=100))
    assert (both.since_s, both.written_bytes, both.written_since_s) == (5, 7, 100)
    totals_file.write(tmp_path, both)
    assert totals_file.read(tmp_path) == both
