"""Where servers' connections lead to, as /proc/net/tcp writes it.

Names are looked up in a thread of their own: a name server that is silent takes ten seconds for each, and of machines
that are gone there may be thousands.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator

from tfquiver.grpc_plumbing import addresses

_MAPPED = b"\0" * 10 + b"\xff" * 2  # an IPv4 address in IPv6
_KNOWN_S = 60.0  # a name may mean another machine later
_WAITED_S = 1.0
_NEVER = float("-inf"), frozenset[str]()


class RemoteEnds:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[float, frozenset[str]]] = {}  # server -> when looked up, and what was found
        self._looking_up: threading.Thread | None = None

    def of(self, servers: Iterable[str]) -> frozenset[str]:
        """Of these (host:port), as far as it is known by now. Waits for names for a second; what takes longer is known
        later. Who cannot be looked up is where they were."""
        now = time.monotonic()
        with self._lock:
            self._found = {server: self._found.get(server, _NEVER) for server in servers}
            due = sorted((at, server) for server, (at, _) in self._found.items() if now >= at + _KNOWN_S)
            is_due = self._due_name() is not None
        for _, server in due:
            if _is_number(server):
                self._look_up(server)
        if is_due and (self._looking_up is None or not self._looking_up.is_alive()):
            self._looking_up = threading.Thread(target=self._look_up_names, name="look-ups", daemon=True)
            with contextlib.suppress(RuntimeError):  # no thread more: another time
                self._looking_up.start()
        if self._looking_up is not None and self._looking_up.is_alive():
            self._looking_up.join(_WAITED_S)
        with self._lock:
            return frozenset[str]().union(*(ends for _, ends in self._found.values()))

    def _due_name(self) -> str | None:
        """That is wanted now, and was looked up longest ago. Under the lock."""
        latest = time.monotonic() - _KNOWN_S
        due = ((at, server) for server, (at, _) in self._found.items() if at <= latest and not _is_number(server))
        return min(due, default=(0.0, None))[1]

    def _look_up_names(self) -> None:
        """One after the other, as long as there are some: who has left meanwhile holds up nobody."""
        while True:
            with self._lock:
                name = self._due_name()
            if name is None:
                return
            self._look_up(name)

    def _look_up(self, server: str) -> None:
        found = frozenset[str]()
        with contextlib.suppress(OSError, ValueError, OverflowError):  # UnicodeError among them
            found = frozenset(_remote_ends(server))
        with self._lock:
            if (known := self._found.get(server)) is not None:
                self._found[server] = time.monotonic(), found or known[1]


@functools.lru_cache(1 << 14)
def _is_number(server: str) -> bool:
    """Whether it needs no name server."""
    with contextlib.suppress(ValueError):
        return addresses.is_number(addresses.split(server)[0])
    return True  # it is nothing


def _remote_ends(server: str) -> Iterator[str]:
    """Each word of the address in the machine's order of bytes."""
    host, port = addresses.split(server)
    for family, *_, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        packed = socket.inet_pton(family, str(where[0]).partition("%")[0])
        forms = [packed] if family == socket.AF_INET6 else [packed, _MAPPED + packed]
        yield from (f"{_words(form)}:{port:04X}" for form in forms)


def _words(packed: bytes) -> str:
    return "".join(f"{int.from_bytes(packed[at : at + 4], sys.byteorder):08X}" for at in range(0, len(packed), 4))
