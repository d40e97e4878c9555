"""Lines of the log that come rarely, however often there is reason to write them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from absl import logging

from tfquiver.log_files_and_lines.logs import KEY

# Of what people ask for, and programs may by the thousand: somebody's few lines are all written.
SAID_S, SAID_AT_ONCE = 10.0, 20


class _Rarely:
    """By place in the code, and what is told apart there: until when how many lines count, and how many were left out.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[tuple[str, int], tuple[float, int, int]] = {}

    def asked(self, place: tuple[str, int], n_seconds: float, now_s: float, at_once: int = 1) -> int | None:
        """How many lines were left out since the last one; None: this one is, too."""
        with self._lock:
            until_s, said, silent = self._places.get(place, (now_s, 0, 0))
            if now_s < until_s and said >= at_once:
                self._places[place] = until_s, said, silent + 1
                return None
            self._places[place] = (until_s, said + 1, 0) if now_s < until_s else (now_s + n_seconds, 1, 0)
            return silent


_rarely = _Rarely()


@logging.skip_log_prefix
def every_n_seconds(
    level: int,
    message: str,
    n_seconds: float,
    *args: object,
    extra: Mapping[str, Any] | None = None,
    exc_info: bool = False,
    apart: str = "",
    at_once: int = 1,
) -> None:
    """As absl's `log_every_n_seconds`: `at_once` lines from one place in the code at most every `n_seconds`.

    One that comes says how many were left out: in its words, and as the field `suppressed`.

    Args:
      extra: what `about` gives.
      apart: lines of which this differs are told apart; one of a few.
    """
    caller = sys._getframe(1)
    silent = _rarely.asked(
        (f"{caller.f_code.co_filename} {apart}", caller.f_lineno), n_seconds, time.monotonic(), at_once
    )
    if silent is None:
        return
    fields = dict(extra[KEY]) if extra else {}
    if silent:
        fields["suppressed"] = silent
        message, args = f"{message} (%d more of these were left out)", (*args, silent)
    logging.log(level, message, *args, extra={KEY: fields}, exc_info=exc_info)
