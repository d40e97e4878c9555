"""Whether a server is there at all, and who waits for it is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import grpc
from absl import logging

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses, rpc
from tfquiver.server_reachability import unreached
from tfquiver.server_reachability.reminders import FIRST_S, UNTIL_SAID_S, Reminders

_LEAST_S = 0.05
_NOBODYS_METHOD = "/tfquiver.v1.Nobody/IsThere"
_UNAVAILABLE, _DEADLINE = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED


def check_answers(address: str, timeout_s: float, what: str) -> None:
    """Raises UnavailableError, beginning with `what`, unless a gRPC server answers at host:port in time.

    At once where the connection is refused, at every address that there is. A port that is open is not enough: the
    kernel keeps that of a stopped process open.
    """
    failed: list[Exception] = []
    for one in addresses.each(address):
        try:
            addresses.connected(one, min(timeout_s, FIRST_S)).close()
            break
        except (OSError, OverflowError, UnicodeError) as error:  # the last: no machine can be called so
            failed.append(error)
    else:
        if not any(isinstance(error, TimeoutError) for error in failed):  # of such what follows says so
            reason = unreached.why(address, str(failed[-1]))
            raise errors.UnavailableError(f"{what} does not answer: {reason}; {unreached.CHECK}") from failed[-1]
    with rpc.channel(address) as channel:
        await_ready(channel, address, timeout_s, what, logging.warning)


def await_ready(channel: grpc.Channel, address: str, timeout_s: float, what: str, say: Callable[[str], object]) -> None:
    """Returns when a server answers there. `say` is told after two seconds, and a minute later and then ever more
    rarely, that it waits.

    Args:
      channel: to `address`.
      what: begins what is said, and the error.

    Raises UnavailableError: nobody answers within `timeout_s`.
    """
    began_s = time.monotonic()
    reminders = Reminders(began_s, then_s=UNTIL_SAID_S)
    silent = _silent(address)
    # Whatever it answers to a method that nobody has, it is there. To watch the channel's state takes a thread of gRPC
    # that fails where the channel is closed just then.
    method: Any = channel.unary_unary(_NOBODYS_METHOD)
    asked = method.future(b"", timeout=timeout_s, wait_for_ready=True)
    try:
        while (left_s := began_s + timeout_s - time.monotonic()) > 0:
            try:
                answer = asked.exception(min(left_s, max(_LEAST_S, reminders.left_s(time.monotonic()))))
            except grpc.FutureTimeoutError:
                now_s = time.monotonic()
                left_s = began_s + timeout_s - now_s
                if left_s > 0 and reminders.is_due(now_s):
                    reason = unreached.why(address, silent)
                    say(f"{what}: {reason}; waiting for it {unreached.until(left_s)}")
            else:
                if answer is None or answer.code() not in (_UNAVAILABLE, _DEADLINE):
                    return
                if answer.code() is _DEADLINE:
                    break
                time.sleep(min(_LEAST_S, left_s))  # a connection that broke
                asked = method.future(b"", timeout=left_s, wait_for_ready=True)
    finally:
        asked.cancel()
    reason = unreached.why(address, silent)
    raise errors.UnavailableError(f"{what} does not answer within {timeout_s:g} s: {reason}; {unreached.CHECK}")


def _silent(address: str) -> str:
    """What is said where a look-up of the name takes its time."""
    host = "" if address.startswith("unix:") else addresses.split(addresses.each(address)[0])[0]
    is_name = bool(host) and not addresses.is_number(host) and not addresses.is_loopback(host)
    return "no server answers there" + (f", or no machine is called {host!r}" if is_name else "")
