"""A server's port, known and kept before the server listens there.

TensorFlow's servers tell their port only once they run. What a worker says of itself before that (where its trainers
find it again, for one) needs it earlier; and between asking which port is free and listening there another process may
take it. So a socket is bound there that never listens: the kernel gives the port to nobody else, whoever connects is
refused as if nobody were there, and TensorFlow, which binds with SO_REUSEPORT, may have it beside this socket, because
it is the same user's.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses


class HeldPort:
    """To be let go as soon as the server listens."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.number = int(sock.getsockname()[1])

    def let_go(self) -> None:
        """Idempotent."""
        self._sock.close()


@contextmanager
def held(port: int) -> Iterator[HeldPort]:
    """`port`, or if 0 any, of every address of this machine; not kept beyond the block.

    Raises UnavailableError when another process has it: TensorFlow's server would start all the same, and get half of
    the calls.
    """
    (everywhere,) = addresses.everywhere()
    family = socket.AF_INET6 if ":" in everywhere else socket.AF_INET
    with _alone(port), socket.socket(family, socket.SOCK_STREAM) as sock:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Only where it is asked for by number: what is left of the connections of the server before is no obstacle.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(port != 0))
        try:
            sock.bind((everywhere, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise errors.UnavailableError(f"--port={port}: {error.strerror}") from error
            raise
        # From now on, not before: with the second option a running server's port would have been shared, and with the
        # first one others who set it would be let in.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield HeldPort(sock)


@contextmanager
def _alone(port: int) -> Iterator[None]:
    """No other process is about to take `port` by this way: between two options below, two might."""
    if not port:
        yield
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        try:
            lock.bind(f"\0tfquiver-port-{port}")  # goes with the process; of this network namespace
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise errors.UnavailableError(f"--port={port}: another server is starting with it") from error
            raise
        yield
