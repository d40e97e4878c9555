"""The disk under a directory, by the kernel's own files, and what it says of its wear.

An NVMe disk is asked for its health log (NVM Express Base Specification 1.4, 5.14.1.2), which takes root's rights; an
eMMC tells in sysfs. Others would have to be asked in their own ways, for which there is smartmontools.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path

from tfquiver.cli.doctor.endurance import Disk, Wear

_SECTOR_BYTES = 512
_VIRTUAL = ("vd", "xvd")  # virtio, Xen
_NVME_ADMIN = 0xC0484E41  # _IOWR('N', 0x41, struct nvme_passthru_cmd), linux/nvme_ioctl.h
_GET_LOG, _HEALTH, _ALL_NAMESPACES = 0x02, 0x02, 0xFFFFFFFF
_HEALTH_BYTES = 512
_COMMAND = struct.Struct("<BBHIIIQQII6III")
_DEADLINE_MS = 5000
_WARNINGS = (  # by bit; the second is of temperature, which passes
    "its spare blocks run out", "", "it is not reliable any more", "it is read-only", "its memory is not saved",
)  # fmt: skip


def disk_of(directory: Path, mounted: str, sys: Path = Path("/sys"), dev: Path = Path("/dev")) -> Disk | None:
    """`mounted`: the device that is mounted there, which says more where a file system has several (btrfs). None: no
    disk of this machine."""
    try:
        block = _whole(sys, _device_number(directory, mounted))
    except OSError:
        return None
    if block is None:
        return None
    name, size_bytes = block.name, int((block / "size").read_text()) * _SECTOR_BYTES
    if name.startswith(_VIRTUAL):
        return Disk(name, size_bytes, virtual=True)
    asked: Callable[[], Wear] | None = None
    if name.startswith("nvme"):
        asked = lambda: health(_health_log(dev / name))  # noqa: E731
    elif name.startswith("mmcblk"):
        asked = lambda: life_time((block / "device" / "life_time").read_text())  # noqa: E731
    if asked is None:
        return Disk(name, size_bytes, unknown="only of NVMe disks it can be read here")
    try:
        return Disk(name, size_bytes, asked())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        root = " (root may: sudo)" if isinstance(error, PermissionError) else ""
        return Disk(name, size_bytes, unknown=f"its count cannot be read: {why}{root}")


def _device_number(directory: Path, mounted: str) -> int:
    """Raises OSError."""
    if mounted.startswith("/dev/"):
        with contextlib.suppress(OSError):  # /dev/root of a kernel without initramfs, or a container's host has it
            return Path(mounted).stat().st_rdev
    return directory.stat().st_dev


def _whole(sys: Path, number: int) -> Path | None:
    """The disk of a partition, of a mapped or encrypted volume, of a file that is mounted. Raises OSError."""
    block = _block(sys, number)
    for _ in range(8):  # one upon the other
        if not block.exists():
            return None
        block = block.resolve()
        if (block / "partition").exists():
            block = block.parent
        elif below := _in(block / "slaves"):  # of several disks the first
            block = below[0]
        elif (block / "loop" / "backing_file").exists():
            block = _block(sys, Path((block / "loop" / "backing_file").read_text().strip()).stat().st_dev)
        else:
            return block
    return None


def _block(sys: Path, number: int) -> Path:
    return sys / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"


def _in(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _health_log(device: Path) -> bytes:
    """Raises OSError."""
    page = ctypes.create_string_buffer(_HEALTH_BYTES)
    which = _HEALTH | (_HEALTH_BYTES // 4 - 1) << 16
    address = ctypes.addressof(page)
    command = bytearray(
        _COMMAND.pack(
            _GET_LOG, 0, 0, _ALL_NAMESPACES, 0, 0, 0, address, 0, _HEALTH_BYTES, which, 0, 0, 0, 0, 0, _DEADLINE_MS, 0
        )
    )
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if status := fcntl.ioctl(descriptor, _NVME_ADMIN, command):
            raise OSError(0, f"{device} answers with NVMe status {status:#x}")
    finally:
        os.close(descriptor)
    return page.raw


def health(page: bytes) -> Wear:
    """Of an NVMe health log. Raises ValueError: it is none."""
    if len(page) != _HEALTH_BYTES or not any(page):
        raise ValueError("its health log is empty")
    failing = [words for bit, words in enumerate(_WARNINGS) if page[0] >> bit & 1 and words]
    hours = int.from_bytes(page[128:144], "little")
    return Wear(page[5] / 100, hours / 24 if hours else None, " and ".join(failing))


def life_time(text: str) -> Wear:
    """Of an eMMC's two kinds of cells, in tenths of its life, the worse. Raises ValueError."""
    tenths = max(int(part, 16) for part in text.split())
    if not 1 <= tenths <= 11:
        raise ValueError("it does not say")
    return Wear(tenths / 10)
