"""Lets connections to machines that are gone without a word end after seconds, not after a quarter of an hour.

For connections that others opened in this process, as TensorFlow's gRPC does, which sets no limit of time to them and
has none for its calls. Linux only; elsewhere nothing is changed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
import time
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from tfquiver.grpc_plumbing import addresses

_LIBC = ctypes.CDLL(None, use_errno=True)
_PROC = Path("/proc/self")
_REMOTE, _INODE = 2, 9  # columns of /proc/net/tcp, see proc(5)
_MAPPED = b"\0" * 10 + b"\xff" * 2  # an IPv4 address in IPv6
_KNOWN_S = 60.0  # a name may mean another machine later
_IDLE_PART, _AGAIN_PART = 3, 6  # of the time: until the kernel asks, and between two questions


class SilentMachines:
    """Not thread-safe."""

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._ends: dict[str, tuple[float, frozenset[str]]] = {}  # server -> when looked up, and what was found

    def look(self, servers: Iterable[str]) -> int:
        """From now on the kernel ends this process's connections to these servers (host:port) when their machine has
        acknowledged nothing for `silence_s`, though there was something to acknowledge: if need be, a question whether
        it is there. A process that hangs on a machine that is there is waited for as before.

        Returns of how many connections this was not yet so. Takes what the look-up of names takes. Raises OSError where
        this process's connections cannot be looked at.
        """
        if sys.platform != "linux":
            return 0
        now = time.monotonic()
        self._ends = {server: self._looked_up(server, now) for server in servers}
        ends = frozenset[str]().union(*(found for _, found in self._ends.values()))
        inodes = _inodes(ends) if ends else set[int]()
        return sum(_limit(fd, inode, self._silence_s) for fd, inode in _sockets() if inode in inodes) if inodes else 0

    def _looked_up(self, server: str, now: float) -> tuple[float, frozenset[str]]:
        known = self._ends.get(server)
        if known is not None and now - known[0] < _KNOWN_S:
            return known
        with contextlib.suppress(OSError, ValueError, UnicodeError):  # who cannot be looked up has no new connection
            return now, frozenset(_remote_ends(server))
        return known or (now, frozenset())


def _remote_ends(server: str) -> Iterator[str]:
    """As /proc/net/tcp writes them: each word of the address in the machine's order of bytes."""
    host, port = addresses.split(server)
    for family, *_, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        packed = socket.inet_pton(family, str(where[0]).partition("%")[0])
        forms = [packed] if family == socket.AF_INET6 else [packed, _MAPPED + packed]
        yield from (f"{_words(form)}:{port:04X}" for form in forms)


def _words(packed: bytes) -> str:
    return "".join(f"{int.from_bytes(packed[at : at + 4], sys.byteorder):08X}" for at in range(0, len(packed), 4))


def _inodes(ends: Container[str]) -> set[int]:
    """Of the connections of this network namespace, whose ever they are, that go there; of those under way, too."""
    found = set[int]()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), (_PROC / "net" / table).open() as lines:
            next(lines, None)
            for line in lines:
                columns = line.split()
                if columns[_REMOTE] in ends:
                    found.add(int(columns[_INODE]))
    return found


def _sockets() -> Iterator[tuple[int, int]]:
    """Descriptor and inode of this process's sockets."""
    for link in (_PROC / "fd").iterdir():
        with contextlib.suppress(OSError):  # it is closed by now
            target = str(link.readlink())
            if target.startswith("socket:["):
                yield int(link.name), int(target[8:-1])


def _limit(fd: int, inode: int, silence_s: float) -> bool:
    """Whether it had no such limit. The descriptor may be another's by now: its copy stays what it is."""
    silence_ms = round(1000 * silence_s)
    with contextlib.suppress(OSError):
        copy = os.dup(fd)
        try:
            if os.fstat(copy).st_ino != inode or _user_timeout_ms(copy) == silence_ms:
                return False
            _set(copy, socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(round(silence_s / _IDLE_PART), 1))
            _set(copy, socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(round(silence_s / _AGAIN_PART), 1))
            _set(copy, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            _set(copy, socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_ms)
            return True
        finally:
            os.close(copy)
    return False


# Not by a socket object: where Python has been given a default time limit, making one makes the owner's non-blocking.
def _user_timeout_ms(fd: int) -> int:
    value, size = ctypes.c_int(), ctypes.c_uint32(ctypes.sizeof(ctypes.c_int))
    option = socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT
    if _LIBC.getsockopt(fd, *option, ctypes.byref(value), ctypes.byref(size)):
        raise OSError(ctypes.get_errno(), "getsockopt")
    return value.value


def _set(fd: int, level: int, option: int, value: int) -> None:
    given = ctypes.c_int(value)
    if _LIBC.setsockopt(fd, level, option, ctypes.byref(given), ctypes.sizeof(given)):
        raise OSError(ctypes.get_errno(), "setsockopt")
