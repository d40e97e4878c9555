"""Whether a gRPC server answers at an address, found out without gRPC.

For threads that look for as long as a training runs: gRPC's own state does not go well with processes that fork.
"""

from __future__ import annotations

import socket

from tfquiver.wire import addresses, unreached

_HEADER_BYTES, _SETTINGS = 9, 4  # of an HTTP/2 frame; its type is the fourth byte
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0))


def trouble(address: str, timeout_s: float) -> str:
    """Why nobody answers at host:port, in words; "": a server does. A port that the kernel keeps open is not enough.

    Takes up to twice `timeout_s`, and what the look-up of a name takes.
    """
    try:
        with socket.create_connection(addresses.split(address), timeout_s) as sock:
            sock.sendall(_HELLO)
            first = sock.recv(_HEADER_BYTES, socket.MSG_WAITALL)
    except (OSError, ValueError, OverflowError) as error:
        return unreached.words(error) or str(error)
    if len(first) == _HEADER_BYTES and first[3] == _SETTINGS:
        return ""
    return "what listens there is no server of this kind" if first else "it closes every connection"
