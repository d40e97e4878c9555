"""What `tfquiver up` says of itself in its cache directory: whether it runs there, where its servers listen.

`up.lock` is held for as long as it runs, its text the pid; `up.json` stays, so that the next one takes the same ports.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tfquiver import durable, errors

LOCK_FILE = "up.lock"
UP_FILE = "up.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Ports:
    """Of the servers of one `up`; 0: it has none, or none yet."""

    coordinator: int = 0
    dispatcher: int = 0
    workers: list[int] = field(default_factory=list)


def is_up(directory: Path) -> bool:
    """False, too, where the file system has no locks, or this user may not look."""
    try:
        return durable.holder(directory / LOCK_FILE) is not None
    except OSError:
        return False


def write(directory: Path, ports: Ports) -> None:
    """Raises OSError."""
    body = {"version": _VERSION, **asdict(ports)}
    durable.write(directory / UP_FILE, [json.dumps(body).encode() + b"\n"])


def read(directory: Path) -> Ports:
    """Of the `up` that runs there or ran there last; no ports where there was none, or its file says nothing."""
    try:
        fields = json.loads((directory / UP_FILE).read_bytes())
        if fields["version"] != _VERSION:
            return Ports()
        ports = Ports(int(fields["coordinator"]), int(fields["dispatcher"]), [int(port) for port in fields["workers"]])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Ports()
    every = [ports.coordinator, ports.dispatcher, *ports.workers]
    return ports if all(0 <= port < 1 << 16 for port in every) else Ports()


def dispatcher_address(cache_dir: str | os.PathLike[str]) -> str:
    """host:port of the dispatcher that `tfquiver up` runs in that directory.

    Raises NotFoundError: `up` does not run there, or without a dispatcher; says what to do.
    """
    directory = Path(cache_dir).expanduser()
    if not is_up(directory):
        raise errors.NotFoundError(
            f"{directory}: no `tfquiver up` runs there, and so no dispatcher: start `tfquiver up {directory}`, or "
            "name the dispatcher's address (host:port)"
        )
    if not (port := read(directory).dispatcher):
        raise errors.NotFoundError(
            f"{directory}: `tfquiver up` runs there without a dispatcher (--workers=0), or it is just starting"
        )
    return f"localhost:{port}"
