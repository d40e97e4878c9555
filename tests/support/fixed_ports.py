"""Ports for servers that must be told one: none that the kernel gives away in the meantime, to whoever connects, and
none that another test gives to a server of its own while the one that had it is killed: who asked for it there was
answered by a stranger, once in some thousand tests."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

from tfquiver.grpc_plumbing import addresses

_LOWEST = 10_000
_FIRST_GIVEN_AWAY = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
_given = set[int]()


def free_port(numbers: Sequence[str] = ("127.0.0.1",)) -> int:
    """One that is free at all of these addresses, and that was not given before: of tests that run side by side each
    process has ports of its own."""
    here = own_ports(os.environ.get("PYTEST_XDIST_WORKER", "gw0"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)))
    while True:
        if len(_given) > len(here) // 2:
            _given.clear()
        port = random.SystemRandom().choice(here)
        if port in _given:
            continue
        _given.add(port)
        try:
            return addresses.free_port(numbers, port)
        except OSError:
            continue


def own_ports(process: str, processes: int) -> range:
    """Of the one that pytest-xdist calls `gwN`, of so many."""
    return range(_LOWEST + int(process.removeprefix("gw")) % processes, _FIRST_GIVEN_AWAY, processes)
