"""With which quota the last node of a cache directory ran that was given one: `<cache_dir>/quota.json`.

The node writes it. A node that is started there with no word about a quota, by whatever command, takes that one.
"""

from __future__ import annotations

import json
from pathlib import Path

from tfquiver import durable, errors

FILE = "quota.json"
_VERSION = 1
_MOST_BYTES = 4096
_MOST_QUOTA_BYTES = 1 << 60


def write(directory: Path, quota_bytes: int | None) -> None:
    """None: none is given any more. Raises the typed error of a failed write; what stood there stands then."""
    path = directory / FILE
    try:
        if quota_bytes is None:
            path.unlink(missing_ok=True)
            durable.sync_directory(directory)
        else:
            body = {"version": _VERSION, "quota_bytes": quota_bytes}
            durable.write(path, [json.dumps(body).encode() + b"\n"])
    except OSError as error:
        raise errors.from_os_error(error, str(path)) from error


def read(directory: Path) -> int | None:
    """None: none is remembered. Raises DataLossError: the file is damaged, of another version, or cannot be read."""
    path = directory / FILE
    try:
        fields = json.loads(durable.read(path, _MOST_BYTES))
        if fields["version"] != _VERSION:
            raise ValueError(f"version {fields['version']!r}, not {_VERSION}")
        quota_bytes = fields["quota_bytes"]
        if type(quota_bytes) is not int or not 0 <= quota_bytes < _MOST_QUOTA_BYTES:
            raise ValueError("quota_bytes")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise errors.DataLossError(f"{path} says no quota ({error}): give one again (--quota)") from error
    return quota_bytes
