"""How much the kernel asks a mount for at a time, and how often. Needs trio.

A mount of FUSE begins with the kernel's 128 KiB, whatever it could take. Most of what a read costs it costs once: with
512 KiB a sequential reader gets 1.4 times as much (tests/bench/fuse_read.py); with 1 MiB the kernel goes back to 128.

Of reads through its pages the kernel has 12 under way, whatever they wait for: as many that hang, for an object that
the store does not give, would hold all others, of what is cached, too.
"""

from __future__ import annotations

import os
from pathlib import Path

import trio
from absl import logging

KIB, AT_ONCE = 512, 256
_OF_DEVICE = "/sys/class/bdi/{}:{}/read_ahead_kb"
OF_CONNECTION = "/sys/fs/fuse/connections/{}/max_background"


def device(point: Path) -> int:
    """Of what is at a path. Blocks as long as that needs to answer. Raises OSError."""
    return point.stat().st_dev


def connection(device: int) -> int:
    """What the kernel calls the connection of a mount with that number: the number, as the kernel writes it."""
    return (os.major(device) << 8) | (os.minor(device) & 0xFF) | ((os.minor(device) & ~0xFF) << 12)


async def widen(point: Path, covered: int) -> None:
    """Sets it for the mount at `point`, where this user may: how much, root, with a /sys that can be written; how
    often, whoever has mounted it, where fusectl is mounted.

    Args:
      covered: `device` of the same path before: where that is found, nothing is mounted any more.
    """
    try:
        # The mount answers when the kernel has greeted it, which sets what is set here.
        mounted = await trio.to_thread.run_sync(device, point, abandon_on_cancel=True)
    except OSError as error:
        logging.vlog(1, "%s: %s", point, error)
        return
    if mounted == covered:
        return
    for path, value in (
        (_OF_DEVICE.format(os.major(mounted), os.minor(mounted)), KIB),
        (OF_CONNECTION.format(connection(mounted)), AT_ONCE),
    ):
        try:
            Path(path).write_text(str(value))
        except OSError as error:
            logging.vlog(1, "%s: %s is as the kernel has it: %s", point, path, error)
