"""Why a server is not reached, in words for people, and what they can do."""

from __future__ import annotations

import socket
import threading
import time

from tfquiver.grpc_plumbing import addresses

CHECK = "is the cluster running, and is the address right (service=, --service or TFQUIVER_SERVICE)?"
REFUSED = "nobody listens there (connection refused)"
_CONNECT_S = 0.5
_LOOK_UP_S = 1.0


def why(address: str, otherwise: str) -> str:
    """Of host:port or unix:/path. Tries it: takes up to a second and a half for each address.

    Args:
      otherwise: what is said where something listens, and where a name server takes longer than that.
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
            return REFUSED
        case FileNotFoundError():
            return "nobody listens there (no such socket)"
        case TimeoutError():
            return "no answer from there"
        case socket.gaierror():
            return f"the host's name leads nowhere ({str(error.strerror).lower()})"
    return getattr(error, "strerror", None) or ""


def refused(details: str) -> bool:
    """Whether gRPC, which says so in `details` of an error, was refused: that machine is there, and no server on it."""
    return "connection refused" in details.lower()


def until(left_s: float) -> str:
    """The time of day in so many seconds, for people who look at a terminal later."""
    return f"until {time.strftime('%H:%M:%S', time.localtime(time.time() + left_s))}"


def _connect(address: str) -> None:
    """Raises OSError. Returns, too, where the look-up of a name takes its time."""
    if address.startswith("unix:"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(_CONNECT_S)
            sock.connect(address.removeprefix("unix:"))
        return
    host, port = addresses.split(address)
    if addresses.is_loopback(host) or addresses.is_number(host) or _is_known(host, port):
        addresses.connected(address, _CONNECT_S).close()


def _is_known(host: str, port: int) -> bool:
    """False: not in time. Raises socket.gaierror: a name server says no."""
    found: list[Exception | None] = []

    def look_up() -> None:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            found.append(error)
        else:
            found.append(None)

    thread = threading.Thread(target=look_up, name="look-up", daemon=True)
    thread.start()
    thread.join(_LOOK_UP_S)
    if not found:
        return False
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0] is None
