"""Whether a gRPC server answers at an address, found out without gRPC.

For threads that look for as long as a training runs: gRPC's own state does not go well with processes that fork.
"""

from __future__ import annotations

import socket
import time

from tfquiver.grpc_plumbing import addresses
from tfquiver.server_reachability import unreached

_HEADER_BYTES, _SETTINGS = 9, 4  # of an HTTP/2 frame; its type is the fourth byte
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0))


def trouble(address: str, timeout_s: float) -> str:
    """Why nobody answers at host:port, in words; "": a server does. A port that the kernel keeps open is not enough.
    Of several, `a:1,b:1`, one that answers is enough; what is said is of the first.

    Takes up to twice `timeout_s` for each, and what the look-up of a name takes.
    """
    found = list[str]()
    for one in addresses.each(address):
        if not (why := _trouble(one, timeout_s)):
            return ""
        found.append(why)
    return found[0]


def _trouble(address: str, timeout_s: float) -> str:
    try:
        with addresses.connected(address, timeout_s) as sock:
            sock.sendall(_HELLO)
            first = _received(sock, timeout_s)
    except (OSError, ValueError, OverflowError) as error:
        return unreached.words(error) or str(error)
    if len(first) == _HEADER_BYTES and first[3] == _SETTINGS:
        return ""
    return "what listens there is no server of this kind" if first else "it closes every connection"


def _received(sock: socket.socket, timeout_s: float) -> bytes:
    """The header, in however many pieces it comes: MSG_WAITALL does not wait on a socket that has a timeout. Less where
    the connection is closed before. Raises OSError."""
    give_up_at, received = time.monotonic() + timeout_s, b""
    while len(received) < _HEADER_BYTES:
        sock.settimeout(max(give_up_at - time.monotonic(), 0.001))
        if not (more := sock.recv(_HEADER_BYTES - len(received))):
            break
        received += more
    return received
