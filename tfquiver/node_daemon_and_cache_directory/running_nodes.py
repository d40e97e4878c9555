"""The cache directories of this machine in which a node of this user runs, found without being told of any.

Nobody keeps a list, which could be stale: a process that calls itself a node has the lock of its directory open.
"""

from __future__ import annotations

import os
from pathlib import Path

from tfquiver import durable

_PROC = Path("/proc")
_MOST_BYTES = 1 << 16  # of a command line
_LOCK = "/node.lock"


def directories(proc: Path = _PROC) -> list[Path]:
    """In the order of their names. None where there is no /proc, and of nodes that this user may not look into."""
    found = set[Path]()
    try:
        processes = [one for one in proc.iterdir() if one.name.isdecimal()]
    except OSError:
        return []
    for process in processes:
        try:
            if _is_node(process):
                found |= set(_held(process))
        except OSError:  # it has ended meanwhile, or is another user's
            continue
    return sorted(found)


def _is_node(process: Path) -> bool:
    if process.stat().st_uid != os.geteuid():
        return False
    with (process / "cmdline").open("rb") as file:
        words = file.read(_MOST_BYTES).split(b"\0")
    return any(word == b"tfquiver.service.node.main" or word.endswith(b"tfquiver-node") for word in words)


def _held(process: Path) -> list[Path]:
    links = [link.readlink() for link in (process / "fd").iterdir()]
    named = [link for link in links if str(link).endswith(_LOCK)]
    return [link.parent for link in named if durable.holder(link) == process.name]
