"""How much of a file system entries leave to others: the digests and the log that say what the entries are for."""

from __future__ import annotations

import os
from pathlib import Path

_MOST_KEPT_BYTES = 64 << 20
_KEPT_SHARE = 20  # one part of so many, of a small disk


def look(directory: Path) -> tuple[int, int]:
    """Bytes that this user can still write there, and how many of them entries never take.

    May wait for the disk; raises OSError.
    """
    found = os.statvfs(directory)
    kept_bytes = min(_MOST_KEPT_BYTES, found.f_blocks * found.f_frsize // _KEPT_SHARE)
    return found.f_bavail * found.f_frsize, kept_bytes
