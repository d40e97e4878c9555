"""Ports for servers that must be told one: none that the kernel gives away in the meantime, to whoever connects."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tfquiver.grpc_plumbing import addresses

_LOWEST = 10_000
_FIRST_GIVEN_AWAY = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def free_port(numbers: Sequence[str] = ("127.0.0.1",)) -> int:
    """One that is free at all of these addresses; others who ask for one at the same time are given another."""
    while True:
        port = random.SystemRandom().randrange(_LOWEST, _FIRST_GIVEN_AWAY)
        try:
            return addresses.free_port(numbers, port)
        except OSError:
            continue
