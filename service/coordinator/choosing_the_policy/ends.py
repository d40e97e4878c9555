"""A policy of another package in whose hands the process ended, several times in a row, is asked no more.

What it does there (`os._exit`, a fault in a solver's C++) nothing can refuse. Whoever starts the coordinator again
would have it ask the same one again, and so on for ever: so while one is made, or makes a plan, a file in the working
directory says so, and where it still does when the next coordinator starts, that is where the one before it ended.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from absl import logging

from tfquiver import durable
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.plain_text import shortened
from tfquiver.service.coordinator.policies import registry

FILE = "policy_asked.json"
# In a row: a kill, which is how servers are stopped, may well meet one that plans for seconds, but not so often.
MOST_ENDS = 3
_VERSION, _MOST_BYTES = 1, 1 << 16
T = TypeVar("T")


class Ends:
    """On the coordinator's loop, but for `asks`."""

    def __init__(self, work_dir: Path) -> None:
        self._path, self._lock, self._is_stopped = work_dir / FILE, threading.Lock(), False
        self._ends = _read(self._path)  # by policy, until it comes to an end with what it is asked
        self._asked = Counter[str]()

    def why_not(self, policy: str) -> str:
        """Why it is not to be asked; empty: it may be."""
        if (ends := self._ends.get(policy, 0)) < MOST_ENDS:
            return ""
        return f"policy {shortened(policy)} is asked no more: {ends} times in a row the coordinator ended while it was"

    def forgive(self, policy: str) -> None:
        """Somebody says that it is to be asked."""
        self._ends.pop(policy, None)

    def asks(self, policy: str, call: Callable[[], T], is_plan: bool = True) -> T:
        """What it returns or raises; in a thread. `is_plan`: where it comes to an end with that, it has not ended the
        process: to be made is only the beginning."""
        if registry.is_ours(policy):
            return call()
        self._note(policy, 1)
        try:
            return call()
        finally:
            self._note(policy, -1, is_plan)

    def stop(self) -> None:
        """The process ends by itself, whoever has not come to an end."""
        with self._lock:
            self._asked.clear()
            self._write()
            self._is_stopped = True

    def _note(self, policy: str, more: int, forgives: bool = False) -> None:
        with self._lock:
            self._asked[policy] += more
            if forgives:
                self._ends.pop(policy, None)
            self._write()

    def _write(self) -> None:
        """How often in a row each has ended the process, if that ends now. Not synced: what a process has written stays
        when it ends, and the end of a machine is nobody's doing."""
        ends = {policy: self._ends.get(policy, 0) + 1 for policy in +self._asked}
        if self._is_stopped:
            return
        try:
            if not (ends := self._ends | ends):
                self._path.unlink(missing_ok=True)
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(self._path, flags, 0o600), "wb") as file:
                file.write(json.dumps({"version": _VERSION, "ends": ends}).encode())
        except OSError as error:
            every_n_seconds(logging.WARNING, "which policy is asked is not noted: %s", 60, error)


def _read(path: Path) -> dict[str, int]:
    """Nothing where it cannot be read."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        said = json.loads(durable.read(path, _MOST_BYTES))
        if said["version"] == _VERSION:
            return {str(policy): int(ends) for policy, ends in said["ends"].items()}
    return {}
