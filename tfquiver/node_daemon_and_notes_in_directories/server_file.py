"""What a coordinator or a dispatcher says of itself in its --work_dir: `server.json`, written when it is ready.

It stays when the server ends, so that whoever takes the directory for a node's is told whose it is; that the server
runs is what its lock says.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from tfquiver import durable, errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.plain_text import plain

FILE = "server.json"
LOCKS = {"coordinator": "lock", "dispatcher": "dispatcher.lock"}
_VERSION = 1
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Server:
    """`address`: where it is reached, host:port; `coordinator`: host:port or unix:/path, of a coordinator its own."""

    server: str
    pid: int
    host: str
    address: str
    coordinator: str

    @property
    def called(self) -> str:
        return f"{self.server} (pid {self.pid})"


def write(directory: Path, server: str, address: str, coordinator: str = "") -> None:
    """Raises the typed error of a failed write."""
    said = Server(server, os.getpid(), socket.gethostname(), address, coordinator or address)
    path = directory / FILE
    try:
        durable.write(path, [json.dumps({"version": _VERSION, **asdict(said)}).encode() + b"\n"])
    except OSError as error:
        raise errors.from_os_error(error, str(path)) from error


def reached_at(bind_host: str, port: int) -> str:
    """The address on this machine of what listens on that host."""
    here = addresses.is_loopback(bind_host) or addresses.is_all(bind_host)
    return addresses.joined("localhost" if here else bind_host, port)


def read(directory: Path) -> Server | None:
    """Of the server that runs there or ran there last; None: the directory is none's, or its file says nothing."""
    try:
        fields = json.loads(durable.read(directory / FILE, _MOST_BYTES))
        if fields["version"] != _VERSION or fields["server"] not in LOCKS:
            return None
        texts = [str(fields[name]) for name in ("host", "address", "coordinator")]
        if not all(map(addresses.is_address, texts[1:])):
            return None
        return Server(fields["server"], int(fields["pid"]), *texts)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def running(directory: Path) -> Server | None:
    """As `read`; None, too, where it does not run now."""
    found = read(directory)
    try:
        holds = found is not None and durable.holder(directory / LOCKS[found.server]) == str(found.pid)
    except OSError:  # this user may not look
        return None
    return found if holds else None


def again(directory: Path) -> str:
    """Words for a directory in which such a server does not run; "": it is no such server's."""
    if (found := read(directory)) is None:
        return ""
    shown = plain(str(directory))
    return (
        f"it is a {found.server}'s --work_dir, and that {found.server} (pid {found.pid}, it was at "
        f"{plain(found.address)}) does not run: tfquiver-{found.server} --work_dir={shown}, with the flags that it "
        "had, starts it again"
    )
