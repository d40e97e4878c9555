"""Whether a directory is a cache's at all, by what servers leave in theirs: people also name those of their data."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from tfquiver.node_daemon_and_notes_in_directories import cluster_file, quota_file, server_file, up_file
from tfquiver.plain_text import plain, shortened

_MARKS = (
    "node.lock", "node.json", "node_id", "objects", "run", up_file.LOCK_FILE, up_file.UP_FILE, server_file.FILE,
    cluster_file.FILE, quota_file.FILE, *server_file.LOCKS.values(),
)  # fmt: skip
_FIRST = ("log", "start.lock", "lost+found")  # made there by who is about to start one, and by mkfs
_MOST_NAMED, _MOST_LOOKED_AT = 2, 1000


def beside(directory: Path) -> str:
    """A warning for who is about to make a cache in a directory of files; "": it is one, or nothing but directories."""
    try:
        if not others(directory):
            return ""
        with os.scandir(directory) as found:
            names = [
                shortened(one.name) for one in islice(found, _MOST_LOOKED_AT) if one.is_file() and _is_others(one.name)
            ]
    except OSError:
        return ""
    if not names:
        return ""
    return (
        f"files are in it ({min(names)}, for one): what is cached is kept beside them, where a pattern such as "
        f"{plain(directory)}/* means both; better name a directory of its own"
    )


def others(directory: Path) -> str:
    """Words for what is there in place of a cache; "": one is, or was, or the directory is empty, or nobody can say."""
    try:
        if any((directory / mark).exists() for mark in _MARKS):
            return ""
        with os.scandir(directory) as found:
            its = (one.name for one in found if _is_others(one.name))
            names = [shortened(name) for name in islice(its, _MOST_NAMED + 1)]
    except (OSError, ValueError):
        return ""
    if not names:
        return ""
    some = ", ".join(sorted(names[:_MOST_NAMED])) + (", ..." if names[_MOST_NAMED:] else "")
    return f"no cache directory, and never was one: in it are {some}"


def _is_others(name: str) -> bool:
    return name not in _FIRST and not name.startswith(".")
