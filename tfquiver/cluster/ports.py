"""Which ports an `up` takes: what was asked for, else those it had last time, else the usual ones, else any."""

from __future__ import annotations

import socket
from collections.abc import Callable

from tfquiver import errors
from tfquiver.host.up_file import Ports

USUAL = Ports(coordinator=5040, dispatcher=5050)


def is_free(port: int) -> bool:
    """On every address of this machine: TensorFlow's servers listen on all."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose(
    coordinator: int | None, dispatcher: int | None, last: Ports, is_free: Callable[[int], bool] = is_free
) -> Ports:
    """Ports to start with; 0: any free one.

    Args:
      coordinator, dispatcher: what a person asked for; None: nothing.
      last: of the `up` that ran here last.

    Raises UnavailableError: one that was asked for is taken; names the flag.
    """
    return Ports(
        _choose("--port", coordinator, (last.coordinator, USUAL.coordinator), is_free),
        _choose("--dispatcher_port", dispatcher, (last.dispatcher, USUAL.dispatcher), is_free),
        [port if port and is_free(port) else 0 for port in last.workers],
    )


def _choose(flag: str, asked: int | None, liked: tuple[int, ...], is_free: Callable[[int], bool]) -> int:
    if asked is None:
        return next((port for port in liked if port and is_free(port)), 0)
    if asked and not is_free(asked):
        raise errors.UnavailableError(f"{flag}={asked}: something else listens there; name another, or 0: any")
    return asked
