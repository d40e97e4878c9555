"""The directories of this machine in which a node of this user runs, or a coordinator or a dispatcher, found without
being told of any.

Nobody keeps a list, which could be stale: a process that calls itself a node has the lock of its directory open.
"""

from __future__ import annotations

import os
from pathlib import Path

from tfquiver import durable
from tfquiver.node_daemon_and_notes_in_directories import server_file, up_file

_PROC = Path("/proc")
_MOST_BYTES = 1 << 16  # of a command line
_NODE_LOCK = "node.lock"


def directories(proc: Path = _PROC) -> list[Path]:
    """Of nodes, in the order of their names; also of one that `tfquiver up` is just starting again. None where there is
    no /proc, and of nodes that this user may not look into."""
    coordinators = _of("coordinator", server_file.LOCKS["coordinator"], proc)
    of_up = [one.parent for one in coordinators if up_file.is_up(one.parent)]
    return sorted({*_of("node", _NODE_LOCK, proc), *of_up})


def work_dirs(proc: Path = _PROC) -> list[Path]:
    """As `directories`, those of coordinators and dispatchers."""
    return sorted(path for server, lock in server_file.LOCKS.items() for path in _of(server, lock, proc))


def _of(server: str, lock: str, proc: Path) -> list[Path]:
    found = set[Path]()
    try:
        processes = [one for one in proc.iterdir() if one.name.isdecimal()]
    except OSError:
        return []
    for process in processes:
        try:
            if _is_a(process, server):
                found |= set(_held(process, lock))
        except OSError:  # it has ended meanwhile, or is another user's
            continue
    return sorted(found)


def _is_a(process: Path, server: str) -> bool:
    if process.stat().st_uid != os.geteuid():
        return False
    with (process / "cmdline").open("rb") as file:
        words = file.read(_MOST_BYTES).split(b"\0")
    module, program = f"tfquiver.service.{server}.main".encode(), f"tfquiver-{server}".encode()
    return any(word == module or word.endswith(program) for word in words)


def _held(process: Path, lock: str) -> list[Path]:
    links = [link.readlink() for link in (process / "fd").iterdir()]
    return [link.parent for link in links if link.name == lock and durable.holder(link) == process.name]
