"""What `tfquiver up` says of itself in its cache directory: whether it runs there, where its servers listen.

`up.lock` is held for as long as it runs, its text the pid; `up.json` stays, so that the next one takes the same ports,
and knows what this one was given. The coordinator's port is in it before there is a node: see `cluster_file`. Which of
its servers have ended and are not back yet is in it while it runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tfquiver import durable, errors
from tfquiver.plain_text import for_shell
from tfquiver.sizes_durations_amounts import sizes

LOCK_FILE = "up.lock"
UP_FILE = "up.json"
MOST_WORKERS = 64
MOST_PORTS = 4 * MOST_WORKERS  # of workers
_VERSION = 1
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Ports:
    """Of the servers of one `up`; 0: it has none, or none yet. Behind those of its workers are those of others that
    were here before."""

    coordinator: int = 0
    dispatcher: int = 0
    workers: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Given:
    """With what one `up` ran; None: that is not known.

    Args:
      quota: as the node's flag takes it; "": its default.
      flags: kind of server -> further flags.
    """

    workers: int | None = None
    quota: str | None = None
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)


def is_up(directory: Path) -> bool:
    """False, too, where the file system has no locks, or this user may not look."""
    return pid_text(directory) is not None


def pid_text(directory: Path) -> str | None:
    """The pid of the `up` that runs there, "" where it has not said it yet; None: as `is_up`."""
    try:
        return durable.holder(directory / LOCK_FILE)
    except (OSError, ValueError):  # no path at all, for one
        return None


def write(directory: Path, ports: Ports, given: Given = Given(), away: Mapping[str, str] | None = None) -> None:
    """`away`: as the function of that name has it. Raises OSError: then nothing is said any more, if the disk lets
    that be."""
    body = {"version": _VERSION, **asdict(ports), "given": asdict(given), "away": dict(away or {})}
    durable.write_or_forget(directory / UP_FILE, json.dumps(body).encode() + b"\n")


def read(directory: Path) -> Ports:
    """Of the `up` that runs there or ran there last; no ports where there was none, or its file says nothing."""
    try:
        fields = _fields(directory)
        ports = Ports(int(fields["coordinator"]), int(fields["dispatcher"]), [int(port) for port in fields["workers"]])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Ports()
    every = [ports.coordinator, ports.dispatcher, *ports.workers]
    return ports if all(0 <= port < 1 << 16 for port in every) else Ports()


def read_given(directory: Path) -> Given:
    """As `read`; nothing is known of one that an older tfquiver ran."""
    try:
        fields = _fields(directory)["given"]
        workers, quota = fields["workers"], fields["quota"]
        flags = {str(kind): [str(flag) for flag in flags] for kind, flags in fields["flags"].items()}
        if not (workers is None or (type(workers) is int and 0 <= workers <= MOST_WORKERS)):
            raise ValueError("workers")
        if quota not in (None, "") and not sizes.is_size(quota):
            raise ValueError("quota")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Given()
    return Given(workers, quota, flags)


def away(directory: Path) -> dict[str, str]:
    """Name of a server of the `up` that runs there -> how it ended, of those that are not back yet."""
    try:
        fields = _fields(directory).get("away", {})  # an older `up` says nothing
        found = {str(name): str(how) for name, how in fields.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return found if is_up(directory) else {}


def _fields(directory: Path) -> Any:
    fields = json.loads(durable.read(directory / UP_FILE, _MOST_BYTES))
    if fields["version"] != _VERSION:
        raise ValueError(f"version {fields['version']}")
    return fields


def dispatcher_address(cache_dir: str | os.PathLike[str]) -> str:
    """host:port of the dispatcher that `tfquiver up` runs in that directory.

    Raises NotFoundError: `up` does not run there, or without a dispatcher; says what to do.
    """
    directory = Path(cache_dir).expanduser()
    if not is_up(directory):
        raise errors.NotFoundError(
            f"{directory}: no `tfquiver up` runs there, and so no dispatcher: start "
            f"`tfquiver up {for_shell(directory)}`, or name the dispatcher's address (host:port)"
        )
    if not (port := read(directory).dispatcher):
        raise errors.NotFoundError(
            f"{directory}: `tfquiver up` runs there without a dispatcher (--workers=0), or it is just starting"
        )
    return f"localhost:{port}"
