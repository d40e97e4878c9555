"""Lines of the log that come rarely, however often there is reason to write them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from absl import logging

from tfquiver.log_files_and_lines.logs import KEY


class _Rarely:
    """By place in the code, and what is told apart there: when it may speak again, how often it was silent since.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[tuple[str, int], tuple[float, int]] = {}

    def asked(self, place: tuple[str, int], n_seconds: float, now_s: float) -> int | None:
        """How many lines were left out since the last one; None: this one is, too."""
        with self._lock:
            next_s, silent = self._places.get(place, (now_s, 0))
            self._places[place] = (next_s, silent + 1) if now_s < next_s else (now_s + n_seconds, 0)
            return None if now_s < next_s else silent


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
) -> None:
    """As absl's `log_every_n_seconds`: a line from one place in the code at most every `n_seconds`.

    One that comes says how many were left out: in its words, and as the field `suppressed`.

    Args:
      extra: what `about` gives.
      apart: lines of which this differs are told apart; one of a few.
    """
    caller = sys._getframe(1)
    silent = _rarely.asked((f"{caller.f_code.co_filename} {apart}", caller.f_lineno), n_seconds, time.monotonic())
    if silent is None:
        return
    fields = dict(extra[KEY]) if extra else {}
    if silent:
        fields["suppressed"] = silent
        message, args = f"{message} (%d more of these were left out)", (*args, silent)
    logging.log(level, message, *args, extra={KEY: fields}, exc_info=exc_info)
