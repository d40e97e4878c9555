"""The mounts of the tests' process are its own: nobody else sees them, and they go when it and its children have ended.

So nothing stays mounted where a test fails between mount and unmount, or pytest is killed. To look at one from a shell:
`nsenter --mount --target PID`.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

_CLONE_NEWNS = 0x20000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_LIBC = ctypes.CDLL(None, use_errno=True)


def begin() -> bool:
    """For this thread and what it starts from now on: to be called before there are others. False: this user may not,
    and may mount nothing either."""
    if _LIBC.unshare(_CLONE_NEWNS):
        return False
    return not _LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)


def points() -> list[str]:
    """Where something is mounted, as this process sees it; of two mounts at one place both."""
    return [line.split(" ")[1] for line in Path("/proc/thread-self/mounts").read_text().splitlines()]
