"""Why a server is not reached, in words for people, and what they can do."""

from __future__ import annotations

import socket
import time

from tfquiver.wire import addresses

CHECK = "is the cluster running, and is the address right (service=, --service or TFQUIVER_SERVICE)?"
_CONNECT_S = 0.5


def why(address: str, otherwise: str) -> str:
    """Of host:port or unix:/path. Looks at what is found without asking a name server, which may take its time.

    Args:
      otherwise: what is said of all others, and where something listens.
    """
    reasons = []
    for one in addresses.each(address):
        try:
            _connect(one)
        except (OSError, ValueError) as error:
            reasons.append(words(error) or otherwise)
        else:
            return otherwise
    return reasons[0]


def words(error: Exception) -> str:
    """What connecting failed with; "": there are none for it."""
    match error:
        case ConnectionRefusedError():
            return "nobody listens there (connection refused)"
        case FileNotFoundError():
            return "nobody listens there (no such socket)"
        case TimeoutError():
            return "no answer from there"
    return getattr(error, "strerror", None) or ""


def until(left_s: float) -> str:
    """The time of day in so many seconds, for people who look at a terminal later."""
    return f"until {time.strftime('%H:%M:%S', time.localtime(time.time() + left_s))}"


def _connect(address: str) -> None:
    """Raises OSError. Returns, too, where it would take a look-up to try."""
    if address.startswith("unix:"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(_CONNECT_S)
            sock.connect(address.removeprefix("unix:"))
        return
    host, port = addresses.split(address)
    if addresses.is_loopback(host) or addresses.is_number(host):
        socket.create_connection((host, port), _CONNECT_S).close()
