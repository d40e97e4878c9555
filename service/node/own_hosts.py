"""Where a node listens, and how others reach it, by what its flags say and leave open."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from absl import logging

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds

_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Hosts:
    bind: str
    advertise: str


def bound(bind: str, coordinator: str) -> str:
    """What --bind_host is, empty or not, at a node of that coordinator ("": of its own)."""
    return bind or (addresses.ALL if _elsewhere(coordinator) else "localhost")


async def choose(
    bind: str,
    advertise: str,
    coordinator: str,
    *,
    deadline_s: float,
    towards: Callable[[str, int], str] = addresses.towards,
) -> Hosts:
    """What --bind_host and --advertise_host are, empty or not, at a node of that coordinator ("": of its own).

    Raises:
      InvalidArgumentError: peers on other machines would reach themselves; names the flag.
      UnavailableError: there is no way to the coordinator within `deadline_s`.
    """
    elsewhere = _elsewhere(coordinator)
    bind = bound(bind, coordinator)
    if not elsewhere:
        return Hosts(bind, advertise or (socket.gethostname() if addresses.is_all(bind) else bind))
    if not advertise and addresses.is_all(bind):
        advertise = await _route(elsewhere, deadline_s, towards)
    advertise = advertise or bind
    if addresses.is_loopback(advertise) or addresses.is_all(advertise):
        raise errors.InvalidArgumentError(
            f"--bind_host={bind}, --advertise_host={advertise}: nodes on other machines would reach themselves there, "
            f"and --coordinator={coordinator} may have some: give --advertise_host, the name or address of this "
            "machine that they can use (or --coordinator=localhost:..., where there is one machine)"
        )
    return Hosts(bind, advertise)


def _elsewhere(coordinator: str) -> list[tuple[str, int]]:
    """Hosts and ports of those that other machines may reach."""
    if not coordinator or coordinator.startswith("unix:"):
        return []
    each = map(addresses.split, addresses.each(coordinator))
    return [(host, port) for host, port in each if not addresses.is_loopback(host)]


async def _route(elsewhere: Sequence[tuple[str, int]], deadline_s: float, towards: Callable[[str, int], str]) -> str:
    """This machine's address for those who can use one of these hosts: of several, some may be gone for good."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + deadline_s
    while True:
        for host, port in elsewhere:
            try:
                found = await asyncio.to_thread(towards, host, port)
            except OSError as error:  # its name may not be known yet
                trouble = error
                continue
            # The coordinator's own machine may know itself as 127.0.1.1: others know it by the name that was given.
            return host if addresses.is_loopback(found) else found
        named = ",".join(addresses.joined(host, port) for host, port in elsewhere)
        if loop.time() + _PAUSE_S > give_up_at:
            raise errors.UnavailableError(f"--coordinator={named}: no way there: {trouble}") from trouble
        every_n_seconds(logging.WARNING, "coordinator %s: %s; trying again", 5, named, trouble)
        await asyncio.sleep(_PAUSE_S)
