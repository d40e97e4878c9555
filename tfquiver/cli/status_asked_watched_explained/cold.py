"""What a cache directory holds while no node runs in it."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfquiver import durable, errors
from tfquiver.cli.status_tables_and_warnings.status_view import saved
from tfquiver.service.node.counters import totals_file

_ENTRY = re.compile(r"[0-9a-f]{64}")


def is_cold(where: str) -> bool:
    """A directory of a cache in which no node runs; one that was killed may have left that it does."""
    try:
        root = Path(where).expanduser()
        return (root / "objects").is_dir() and durable.holder(root / "node.lock") is None
    except (OSError, ValueError):
        return False


def collect(where: str) -> dict[str, Any]:
    """Entries and bytes on the disk, and what they have saved. Raises PermissionError_ when this user may not look."""
    root = Path(where).expanduser()
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
    held = {"entries": entries, "used_bytes": used_bytes, "digests": digests}
    return {
        "cache_dir": str(root), "running": False, **held, "saved": saved([asdict(totals_file.read(root))])
    }  # fmt: skip
