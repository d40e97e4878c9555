"""What a cache directory holds while no node runs in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.host import node_endpoint

_ENTRY = re.compile(r"[0-9a-f]{64}")


def is_cold(where: str) -> bool:
    """A directory of a cache, and nobody says that a node runs there."""
    try:
        root = Path(where)
        return (root / "objects").is_dir() and not (root / node_endpoint.NODE_FILE).exists()
    except (OSError, ValueError):
        return False


def collect(where: str) -> dict[str, Any]:
    """Entries and bytes on the disk. Raises PermissionError_ when this user may not look."""
    root = Path(where)
    entries = used_bytes = 0
    try:
        for path in (root / "objects").glob("??/??/*"):
            if _ENTRY.fullmatch(path.name):
                entries, used_bytes = entries + 1, used_bytes + path.lstat().st_size
        digests = sum(1 for _ in (root / "digests").glob("*.tfqd"))
    except FileNotFoundError as error:
        raise errors.UnavailableError(f"{root} changed meanwhile: ask again") from error
    except OSError as error:
        raise errors.PermissionError_(f"{root}: {error.strerror}") from error
    return {"cache_dir": str(root), "running": False, "entries": entries, "used_bytes": used_bytes, "digests": digests}
