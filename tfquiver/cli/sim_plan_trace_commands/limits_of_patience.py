"""Simulations that would take hours, or gigabytes, end with an error that says so, unless somebody says `--anyway`.

How long one takes nobody can tell beforehand: it is seen by how far it has come, of the time in which the jobs can have
ended at the earliest. So what is told is the least that it takes.
"""

from __future__ import annotations

import argparse
import resource
import sys

from tfquiver import errors
from tfquiver.cli.sim_plan_trace_commands.sim_view import lasting
from tfquiver.clock import Clock, SystemClock
from tfquiver.sizes_durations_amounts.amounts import of_bytes

MOST_S, MOST_BYTES = 3600.0, 4 << 30
JUDGED_FROM_S, JUDGED_UNTIL_S = 20.0, 600.0  # what has come so far is let go on, as long as it is within MOST_S
_LOOK_S = 1.0
_WAY_OUT = "fewer jobs or epochs, or a longer replan_s, take less; --anyway goes on nevertheless"


def add_flag(parser: argparse.ArgumentParser) -> None:
    what = f"goes on also where it takes more than an hour, or {of_bytes(MOST_BYTES)} of memory: else that is an error"
    parser.add_argument("--anyway", action="store_true", help=what)


class Patience:
    def __init__(self, simulations: int, anyway: bool, clock: Clock | None = None) -> None:
        """`simulations`: that follow one upon the other; `anyway`: it has no end."""
        self._clock, self._anyway, self._left = clock or SystemClock(), anyway, simulations + 1
        self._began_s = self._this_began_s = self._looked_s = self._clock.now()
        self._title, self._first_s, self._least_s = "", 0.0, 0.0
        self.simulated_s = 0.0  # of the one that is under way

    def begin(self, title: str, first_s: float, least_s: float) -> None:
        """The next simulation. `first_s`: when its time begins; `least_s`: no schedule takes less of it."""
        self._title, self._first_s, self._least_s = title, first_s, least_s
        self._left, self._this_began_s, self.simulated_s = self._left - 1, self._clock.now(), 0.0

    def look(self, at_s: float) -> None:
        """So far it has come. Raises ResourceExhaustedError."""
        self.simulated_s = at_s - self._first_s
        if self._anyway or (now_s := self._clock.now()) < self._looked_s + _LOOK_S:
            return
        self._looked_s = now_s
        if (taken := memory_bytes()) > MOST_BYTES:
            what = f"takes more than {of_bytes(MOST_BYTES)} of memory"
            raise errors.ResourceExhaustedError(f"{self._title}: it {what} ({of_bytes(taken)} by now): {_WAY_OUT}")
        had_s, part = now_s - self._began_s, min(self.simulated_s / self._least_s, 1.0)
        if had_s < JUDGED_FROM_S:
            return
        takes_s = had_s
        if had_s < JUDGED_UNTIL_S:
            before_s, this_s = self._this_began_s - self._began_s, now_s - self._this_began_s
            takes_s = before_s + self._left * this_s / part if part > 0 else float("inf")
        if takes_s > MOST_S:
            far = f"{lasting(self.simulated_s)} of at least {lasting(self._least_s)} are simulated"
            long = "very long" if takes_s == float("inf") else f"at least {lasting(takes_s)}"
            all_ = f" for all {self._left}" if self._left > 1 else ""
            raise errors.ResourceExhaustedError(
                f"{self._title}: this takes {long}{all_} ({far} after {lasting(had_s)}): {_WAY_OUT}"
            )


def memory_bytes() -> int:
    """The most that this process ever had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
