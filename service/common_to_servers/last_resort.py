"""The end of a server that does not end: a disk or a store that hangs holds a thread, and with it the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import NoReturn

from absl import logging

from tfquiver.service.common_to_servers import serving

_CLOSE_S, _LAST_LINES_S = 0.3, 0.5
_KILLED_S = 2  # more, and the kernel ends it


class LastResort:
    """Then the process ends as if killed. `let_go` is called before, if there is time for that: it may hang, too."""

    def __init__(self) -> None:
        self.let_go: Callable[[], None] = lambda: None
        self._timer: threading.Timer | None = None

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def within(self, seconds: float, code: int = 0) -> None:
        """From now, with that exit code; replaces what was said before."""
        self.cancel()
        # gRPC deletes its sockets under the interpreter's lock: then no thread gets on.
        signal.alarm(int(seconds) + _KILLED_S)
        # A thread: closing sockets deletes their files, on the loop too.
        self._timer = threading.Timer(seconds, self._leave_all_the_same, [seconds, code])
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _leave_all_the_same(self, seconds: float, code: int) -> None:
        logging.error("not everything ended within %g s: leaving all the same", seconds)
        closing = threading.Thread(target=self.let_go, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)
        leave(code, _LAST_LINES_S)


def leave(code: int, last_lines_s: float = serving.LAST_LINES_S) -> NoReturn:
    serving.flush(last_lines_s)
    os._exit(code)
