"""How far a simulation has come, on standard error: a bar on a terminal, elsewhere a line every ten seconds.

A job may last for years of simulated time, in which none ends: so the time that is simulated is told, too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tfquiver.cli import calls
from tfquiver.cli.sim_plan_trace_commands.sim_view import lasting

_LINE_S, _LOOK_S = 10.0, 0.5


class Progressing:
    def __init__(self, jobs: int, every_s: float = _LINE_S) -> None:
        self._terminal = sys.stderr.isatty()
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("jobs, {task.fields[at]}"),
            TimeElapsedColumn(), console=calls.console(stderr=True), transient=True, disable=not self._terminal,
        )  # fmt: skip
        self._jobs, self._every_s, self._ended = jobs, every_s, 0
        self._title, self._least_s = "", 0.0
        self._at_s: Callable[[], float] = lambda: 0.0
        self._over, self._began_s = Event(), time.monotonic()
        self._thread = Thread(target=self._tell, name="tells progress", daemon=True)

    def __enter__(self) -> Self:
        self._bar.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._bar.stop()

    def begin(self, title: str, at_s: Callable[[], float], least_s: float) -> None:
        """The next simulation. `at_s`: how much of its time is simulated; `least_s`: which no schedule beats."""
        self._title, self._at_s, self._least_s, self._ended = title, at_s, least_s, 0
        self._bar.add_task(title, total=self._jobs, at="")

    def ended(self, jobs: int) -> None:
        self._ended = jobs

    # Inside.

    def _tell(self) -> None:
        while not self._over.wait(_LOOK_S if self._terminal else self._every_s):
            at = f"{lasting(self._at_s())} of at least {lasting(self._least_s)} simulated"
            if not self._terminal:
                elapsed = lasting(time.monotonic() - self._began_s)
                line = f"tfquiver: {self._title}: {self._ended} of {self._jobs} jobs have ended, {at}, after {elapsed}"
                print(line, file=sys.stderr, flush=True)
            elif ids := self._bar.task_ids:
                self._bar.update(ids[-1], completed=self._ended, at=at)
