"""Which node of a name has been told what it must know of this process: the one that a kept connection leads to.

A node that was started again has the path of the one before, and knows nothing. Whether what was connected to a path
leads to the node that was told is seen afterwards, by looking at the kept connection: a path is one node's at a time,
so that node it was if the kept connection still is one then. No timing is in this.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Protocol

_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid


class SetEndpoint(Protocol):
    """The op library's way to be told endpoints (tfquiver.ops.compiling_and_loading.loader.Library)."""

    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None: ...


class Connected(Protocol):
    """A socket."""

    def fileno(self) -> int: ...
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Told:
    path: str
    kept: Connected


class ToldNodes:
    """Thread-safe. No connection that it was given last for a name is to be closed before it was given another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, _Told] = {}

    def tell(self, library: SetEndpoint, name: str, path: str, kept: Connected) -> None:
        """The op may come to the node there, which has been told."""
        with self._lock:
            self._by_name[name] = _Told(path, kept)
            library.set_endpoint(name, path, kept.fileno())

    def take_back(self, library: SetEndpoint, name: str, kept: Connected) -> None:
        """The op looks at that connection no more: who goes on reading comes to whatever node is there. Where somebody
        else has given another one for this name meanwhile, that stays."""
        with self._lock:
            if (told := self._by_name.get(name)) and told.kept is kept:
                del self._by_name[name]
                library.set_endpoint(name, told.path)

    def leads_there(self, name: str, path: str, connection: Connected) -> bool:
        """Whether `connection`, which was made to `path` just now, leads to the node that has been told. For who reads
        without the op, which asks the same (ops/core/told_by_python). True where no connection is kept."""
        with self._lock:
            if (told := self._by_name.get(name)) is None:
                return True
            looks = select.poll()
            looks.register(told.kept.fileno(), 0)
            is_broken = any(events & (select.POLLHUP | select.POLLERR) for _, events in looks.poll(0))
            return told.path == path and not is_broken and _process_of(told.kept) == _process_of(connection)


def _process_of(connection: Connected) -> int:
    """Who listens at the other end; where that is in another container, 0."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(told)[0])
