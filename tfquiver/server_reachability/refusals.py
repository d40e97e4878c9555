"""Whether nobody listens at any address of a server: gRPC says it of the last one that its name has."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable

from tfquiver.grpc_plumbing import addresses

_CONNECT_S, _WAITED_S = 0.25, 1.0


class Refusals:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._looking: threading.Thread | None = None

    def of(self, servers: Collection[str]) -> frozenset[str]:
        """Those of them (host:port, that refused at one address) that refuse at each. Names are looked up, in a thread,
        for a second at most: who is not looked at by then, as where a name server is silent, is none."""
        by_name = {one for one in servers if not addresses.is_number(addresses.split(one)[0])}
        refused = [one for one in servers if one not in by_name]
        if by_name and (self._looking is None or not self._looking.is_alive()):
            found = list[str]()
            self._looking = threading.Thread(target=_look, args=(sorted(by_name), found), name="refusals", daemon=True)
            with contextlib.suppress(RuntimeError):  # no thread more: another time
                self._looking.start()
                self._looking.join(_WAITED_S)
            refused += found
        return frozenset(refused)


def _look(servers: Iterable[str], found: list[str]) -> None:
    for one in servers:
        if addresses.refuses(one, _CONNECT_S):
            found.append(one)
