"""How much the kernel asks a mount for at a time. Needs trio.

A mount of FUSE begins with the kernel's 128 KiB, whatever it could take. Most of what a read costs it costs once: with
512 KiB a sequential reader gets 1.4 times as much (tests/bench/fuse_read.py); with 1 MiB the kernel goes back to 128.
"""

from __future__ import annotations

import os
from pathlib import Path

import trio
from absl import logging

KIB = 512
_OF_DEVICE = "/sys/class/bdi/{}:{}/read_ahead_kb"


def device(point: Path) -> int:
    """Of what is at a path. Blocks as long as that needs to answer. Raises OSError."""
    return point.stat().st_dev


async def widen(point: Path, covered: int) -> None:
    """Sets it for the mount at `point`, where this user may: root, with a /sys that can be written.

    Args:
      covered: `device` of the same path before: where that is found, nothing is mounted any more.
    """
    try:
        # The mount answers when the kernel has greeted it, which sets what is set here.
        mounted = await trio.to_thread.run_sync(device, point, abandon_on_cancel=True)
        if mounted != covered:
            Path(_OF_DEVICE.format(os.major(mounted), os.minor(mounted))).write_text(str(KIB))
    except OSError as error:
        logging.vlog(1, "%s: the kernel asks for 128 KiB at a time: %s", point, error)
