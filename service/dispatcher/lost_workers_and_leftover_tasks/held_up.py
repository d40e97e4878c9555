"""Who is held up, perhaps, by tasks that nobody asks for: said in the log, and to whoever asks for the status.

A worker was lost at the end of an epoch, and is back: its trainer may have had all of such a task, and waits for
nothing but its end; or it pauses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from absl import logging

_FIRST_S, _AGAIN_S = 10.0, 60.0  # by the first a trainer that waits has said so


@dataclass(frozen=True, slots=True)
class Held:
    unread_s: float  # since the worker is back
    left_s: float  # until the task is finished for it, if all stays as it is
    waits: bool  # its trainer says that it waits


class HeldUp:
    """Not thread-safe, but for `now`."""

    def __init__(self) -> None:
        self.now: Mapping[str, Held] = {}  # by worker, of its tasks the one that takes longest
        self._told_at: dict[int, float] = {}

    def nobody(self) -> None:
        self.now, self._told_at = {}, {}

    def look(self, held: Mapping[int, tuple[str, Held]], now: float) -> None:
        """`held`: by task, with its worker."""
        longest: dict[str, Held] = {}
        to_tell: dict[str, list[int]] = defaultdict(list)
        for task_id, (worker, one) in held.items():
            if worker not in longest or one.left_s > longest[worker].left_s:
                longest[worker] = one
            told_at = self._told_at.get(task_id)
            if one.unread_s >= _FIRST_S and (told_at is None or now - told_at >= _AGAIN_S):
                to_tell[worker].append(task_id)
        self.now = longest
        self._told_at = {task_id: at for task_id, at in self._told_at.items() if task_id in held}
        for worker, task_ids in to_tell.items():
            self._told_at |= dict.fromkeys(task_ids, now)
            one = longest[worker]
            whose = (
                "its trainer waits, and may have had all that they have"
                if one.waits
                else "its trainer may have had all that they have, and wait, or it pauses, and does not say (as with "
                "TensorFlow's own distribute)"
            )
            logging.warning(
                "worker %s was lost at the end of an epoch, and has been back for %.0f s: nobody has asked for its "
                "tasks %s since; %s; they are called finished in %.0f s, if nobody does until then%s",
                worker, one.unread_s, sorted(task_ids), whose, one.left_s,
                "" if one.waits else " (--unread_task_timeout_ms)",
            )  # fmt: skip
