"""What some tests need of the machine beyond Python and a compiler; what is missing is named with the way to get it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from functools import cache

import pytest

from tfquiver.mounting import mount_points

_HOW = "run the tests as root on a machine, or in a container with CAP_SYS_ADMIN"


@cache
def cannot_mount(loop_devices: bool) -> str:
    """Why no tmpfs, or no file system in a file, can be mounted here; "" when it can."""
    if os.geteuid() != 0:
        return f"mounting a file system needs root: {_HOW}"
    tools = {"mount": "mount", "umount": "mount"}
    if loop_devices:
        tools |= {"mkfs.ext4": "e2fsprogs", "losetup": "mount", "fsfreeze": "util-linux"}
    for tool, package in tools.items():
        if not shutil.which(tool):
            return f"{tool} is missing: apt-get install {package}"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "none", folder], capture_output=True, text=True)
        if done.returncode:
            return f"no file system may be mounted here ({done.stderr.strip()}): {_HOW}"
        subprocess.run(["umount", folder], check=True)
    if loop_devices and subprocess.run(["losetup", "-f"], capture_output=True).returncode:
        return f"there are no loop devices here: {_HOW}, and modprobe loop"
    return ""


@cache
def cannot_mount_dead(device: str = "/dev/fuse") -> str:
    """Why no mount can be made whose server is dead (disks.dead); "" when it can."""
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError as error:
        return f"{error}: modprobe fuse; in a container --device=/dev/fuse. {_HOW}"
    return cannot_mount(False)


@cache
def cannot_mount_fuse() -> str:
    """Why no FUSE file system can be mounted here; "" when it can."""
    if importlib.util.find_spec("pyfuse3") is None:
        return f"pyfuse3 is missing: {mount_points.INSTALL}, then pip install '.[fuse]'"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return f"/dev/fuse is missing or closed to this user: modprobe fuse; in a container --device=/dev/fuse. {_HOW}"
    if os.geteuid() != 0 and not shutil.which("fusermount3"):
        return "fusermount3 is missing: apt-get install fuse3"
    return cannot_mount(False) if os.geteuid() == 0 else ""


needs_fuse = pytest.mark.skipif(bool(cannot_mount_fuse()), reason=cannot_mount_fuse() or "never said")
needs_mounts = pytest.mark.skipif(bool(cannot_mount(False)), reason=cannot_mount(False) or "never said")
needs_dead_mounts = pytest.mark.skipif(bool(cannot_mount_dead()), reason=cannot_mount_dead() or "never said")
needs_disks = pytest.mark.skipif(bool(cannot_mount(True)), reason=cannot_mount(True) or "never said")
