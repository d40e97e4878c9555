"""Calls on a server that may just be starting: asked again for a while, and not in silence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from absl import logging

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.server_reachability import unreached
from tfquiver.server_reachability.reminders import UNTIL_SAID_S, Reminders

T = TypeVar("T")
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


def until_answered(start: Callable[[], grpc.Future[T]], what: str, address: str, deadline_s: float) -> T:
    """The reply. A warning says after two seconds, and a minute later and then ever more rarely, what is waited for,
    why and how long.

    Args:
      start: makes the call, which can be repeated, as a future.
      what: begins each warning and the error, for example "asking the coordinator at host:1".
      address: of whom it asks.
      deadline_s: for how long what fails for want of a server is tried again.

    Raises the typed exception of the last failure.
    """
    began_s = time.monotonic()
    reminders = Reminders(began_s, then_s=UNTIL_SAID_S)

    def remind(reason: str) -> None:
        now_s = time.monotonic()
        left_s = began_s + deadline_s - now_s
        if left_s > 0 and reminders.is_due(now_s):
            logging.warning("%s: %s; waiting for it %s", what, unreached.why(address, reason), unreached.until(left_s))

    while True:
        asked_s = time.monotonic()
        try:
            return _reply(start(), reminders, remind)
        except grpc.RpcError as error:
            if error.code() not in rpc.RETRYABLE or time.monotonic() > began_s + deadline_s:
                raise _typed(error, what, address, deadline_s) from error
            remind(error.details() or error.code().name)
            # As long as it took to be refused: who is turned away with half of a long message does not send on and on.
            time.sleep(min(max(_PAUSE_S, time.monotonic() - asked_s), _LONGEST_PAUSE_S))


def _reply(call: grpc.Future[T], reminders: Reminders, remind: Callable[[str], None]) -> T:
    try:
        while True:
            try:
                return call.result(max(_PAUSE_S, reminders.left_s(time.monotonic())))
            except grpc.FutureTimeoutError:
                remind("it has not answered yet")
    finally:
        call.cancel()


def _typed(error: Any, what: str, address: str, deadline_s: float) -> errors.TfquiverError:
    if error.code() is not grpc.StatusCode.UNAVAILABLE:
        return rpc.from_rpc_error(error, what)
    reason = unreached.why(address, error.details() or error.code().name)
    return errors.UnavailableError(f"{what}: {reason}, for {deadline_s:g} s; {unreached.CHECK}")
