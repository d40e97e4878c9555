"""Who listens, hears a caller, and says the same whatever it was asked."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def answering(listening: socket.socket, *said: bytes, between_s: float = 0.0) -> Iterator[None]:
    """One caller, who must have come by the end. `between_s`: how long it may have to hang up between two pieces."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1 << 16)
            for number, piece in enumerate(said):
                if number:
                    select.select([connection], [], [], between_s)
                connection.sendall(piece)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join()
