"""What a cache directory holds while no node runs in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfquiver import durable, errors
from tfquiver.cli.status_tables_and_warnings.status_view import saved
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.service.node.counters import totals_file
from tfquiver.service.node.disk import entry

_ENTRY = re.compile(r"[0-9a-f]{64}")


def is_cold(where: str) -> bool:
    """A directory of a cache in which no node runs; one that was killed may have left that it does. Where `tfquiver up`
    runs, its node is only away."""
    try:
        root = Path(where).expanduser()
        is_free = durable.holder(root / "node.lock") is None and not up_file.is_up(root)
        return (root / "objects").is_dir() and is_free
    except (OSError, ValueError, RuntimeError):  # the last of these: nobody has that home
        return False


def disk_bytes(found: os.DirEntry[str]) -> int:
    """What that entry takes, as a node counts it: whole pages. Raises OSError."""
    return entry.disk_bytes(max(found.stat(follow_symlinks=False).st_size, 1))


def entries_in(root: Path) -> Iterator[os.DirEntry[str]]:
    """Of a cache directory. Of a million files, of which pathlib would make a path each. Raises OSError."""
    for first in _directories(root / "objects"):
        for second in _directories(first):
            for found in _all_in(second):
                if _ENTRY.fullmatch(found.name):
                    yield found


def _directories(above: Path | os.DirEntry[str]) -> Iterator[os.DirEntry[str]]:
    return (one for one in _all_in(above) if len(one.name) == 2 and one.is_dir(follow_symlinks=False))


def _all_in(directory: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as found:
        return list(found)


def collect(where: str) -> dict[str, Any]:
    """Entries and bytes on the disk, and what they have saved. Raises PermissionError_ when this user may not look."""
    root = Path(where).expanduser()
    entries = used_bytes = 0
    try:
        for found in entries_in(root):
            entries, used_bytes = entries + 1, used_bytes + disk_bytes(found)
        digests = sum(1 for _ in (root / "digests").glob("*.tfqd"))
    except FileNotFoundError as error:
        raise errors.UnavailableError(f"{root} changed meanwhile: ask again") from error
    except OSError as error:
        raise errors.PermissionError_(f"{root}: {error.strerror}") from error
    held = {"entries": entries, "used_bytes": used_bytes, "digests": digests}
    ran = up_file.read(root).coordinator > 0
    return {
        "cache_dir": str(root), "running": False, "up_ran": ran, **held,
        "saved": saved([asdict(totals_file.read(root))]),
    }  # fmt: skip
