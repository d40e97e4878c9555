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
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from tfquiver.tensorflow_dispatcher_and_worker_connections.remote_ends import RemoteEnds

_LIBC = ctypes.CDLL(None, use_errno=True)
_PROC = Path("/proc/self")
_REMOTE, _STATE, _INODE = 2, 3, 9  # columns of /proc/net/tcp, see proc(5)
_CONNECTING = "02"  # SYN_SENT
# A kernel answers a SYN whatever its processes do: of a machine that has answered none of three or four, none is there.
# gRPC waits 20 s for it, and TensorFlow's dispatcher begins no epoch meanwhile.
CONNECT_S = 4.0
_IDLE_PART, _AGAIN_PART = 3, 6  # of the time: until the kernel asks, and between two questions


class SilentMachines:
    """Not thread-safe."""

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._remote_ends = RemoteEnds()

    def look(self, servers: Iterable[str]) -> int:
        """From now on the kernel ends this process's connections to these servers (host:port) when their machine has
        acknowledged nothing for `silence_s`, though there was something to acknowledge: if need be, a question whether
        it is there. A process that hangs on a machine that is there is waited for as before, unless it has been sent
        more than its buffers take, some MB: nobody has acknowledged that. One that is still being made ends after
        `CONNECT_S`, if that is less.

        Returns of how many connections this was not yet so (one that was made since it was last looked at is one).
        Takes up to a second where names are to be looked up; of those that take longer connections have their turn when
        it is called again. Raises OSError where this process's connections cannot be looked at.
        """
        if sys.platform != "linux":
            return 0
        ends = self._remote_ends.of(servers)
        connecting = _connections(ends) if ends else {}
        if not connecting:
            return 0
        limits = {False: self._silence_s, True: min(CONNECT_S, self._silence_s)}
        return sum(_limit(fd, inode, limits[connecting[inode]]) for fd, inode in _sockets() if inode in connecting)


def _connections(ends: Container[str]) -> dict[int, bool]:
    """Inodes of the connections of this network namespace, whose ever they are, that go there; whether each is still
    being made."""
    found = dict[int, bool]()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), (_PROC / "net" / table).open() as lines:
            next(lines, None)
            for line in lines:
                columns = line.split()
                if columns[_REMOTE] in ends:
                    found[int(columns[_INODE])] = columns[_STATE] == _CONNECTING
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
