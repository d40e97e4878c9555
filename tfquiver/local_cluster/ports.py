"""Which ports an `up` takes: what was asked for, else those it had last time, else the usual ones, else any."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.node_daemon_and_notes_in_directories.up_file import MOST_PORTS, Ports

USUAL = Ports(coordinator=5040, dispatcher=5050)
_CONNECTIONS_OWN = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST, _MOST_TRIED = 10_000, 100


def is_free(port: int) -> bool:
    """On every address of this machine: TensorFlow's servers listen on all."""
    try:
        addresses.free_port(addresses.everywhere(), port)
    except OSError:
        return False
    return True


def lasting(is_free: Callable[[int], bool] = is_free, range_file: Path = _CONNECTIONS_OWN) -> int:
    """A free port of those that the kernel gives to no connection as its own; 0 when it is not known which these are.

    A server whose port is one of the others may find it taken when it is started again a moment later.
    """
    try:
        below = int(range_file.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    tried = random.sample(range(_FIRST, below), min(_MOST_TRIED, below - _FIRST)) if below > _FIRST else []
    return next(filter(is_free, tried), 0)


def choose(
    coordinator: int | None,
    dispatcher: int | None,
    last: Ports,
    workers: int = 0,
    is_free: Callable[[int], bool] = is_free,
) -> Ports:
    """Ports to start with; 0: see `lasting`.

    Args:
      coordinator, dispatcher: what a person asked for; None: nothing.
      workers: so many there shall be.
      last: of the `up` that ran here last.

    Raises UnavailableError: one that was asked for is taken; names the flag.
    """
    return Ports(
        _choose("--port", coordinator, (last.coordinator, USUAL.coordinator), is_free),
        _choose("--dispatcher_port", dispatcher, (last.dispatcher, USUAL.dispatcher), is_free),
        _of_workers(last.workers, workers, is_free),
    )


def passed_over(
    coordinator: int | None, dispatcher: int | None, last: Ports, chosen: Ports, whose: Callable[[int], str]
) -> list[str]:
    """For people: the ports that were liked and are taken. Arguments as of `choose`, and what it returned.

    Args:
      whose: words for who listens on a port; "": nobody knows.
    """
    servers = (
        ("coordinator", coordinator, last.coordinator or USUAL.coordinator, chosen.coordinator),
        ("dispatcher", dispatcher, last.dispatcher or USUAL.dispatcher, chosen.dispatcher),
    )
    return [
        f"{whose(liked) or 'something else'} has port {liked}: the {server} of this one takes another"
        for server, asked, liked, got in servers
        if asked is None and got != liked
    ]


def _of_workers(last: Sequence[int], count: int, is_free: Callable[[int], bool]) -> list[int]:
    """Those that were here and are to be here no more come last: the dispatcher's journal has them still."""
    own = [*last[:count], *[0] * (count - len(last))]
    now = [port if port and is_free(port) else 0 for port in own]
    former = [port for port in (*last[count:], *own) if port and port not in now]
    return [*now, *dict.fromkeys(former)][:MOST_PORTS]


def _choose(flag: str, asked: int | None, liked: tuple[int, ...], is_free: Callable[[int], bool]) -> int:
    if asked is None:
        return next((port for port in liked if port and is_free(port)), 0)
    if asked and not is_free(asked):
        raise errors.UnavailableError(f"{flag}={asked}: something else listens there; name another, or 0: any")
    return asked
