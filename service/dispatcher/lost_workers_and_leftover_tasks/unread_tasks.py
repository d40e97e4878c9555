"""Tasks at the end of their epochs whose workers were lost, and have them again (pure).

The client of such a task may have had its end, and asks for it no more; or it has not asked yet. While it waits for an
element, and can have one of no other task, it asks a worker that it lost again and again: gRPC first lets pass about as
long as the worker was away. So who has waited for so long since the worker is back, and has not asked, will not ask.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Set
from dataclasses import dataclass

from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.outages import LEAST_S, SILENT_S, until_asked_s

_GAP_S = 10.0  # without a look, and it may have been otherwise meanwhile


@dataclass(slots=True)
class LostTask:
    lacking_at: float  # when its worker was last seen without it
    away_since: float | None  # None: nobody knows
    lives: bool = False  # its machine has answered for the worker: it, or nobody, listens there
    back_since: float | None = None
    starving_since: float | None = None
    looked_at: float = 0.0  # whether it starves


class UnreadTasks:
    """Not thread-safe."""

    def __init__(self, noted: Mapping[int, LostTask] | None = None) -> None:
        """`noted`: as `tasks`, by the dispatcher before this one: their workers do not lack them a second time."""
        self._tasks = dict(noted or {})

    @property
    def tasks(self) -> Mapping[int, LostTask]:
        """By id."""
        return self._tasks

    def look(
        self,
        at_end: Mapping[int, tuple[str, str]],
        tasks: Mapping[str, Container[int]],
        refusing: Container[str],
        away_since: Callable[[str], float | None],
        now: float,
    ) -> None:
        """
        Args:
          at_end: as TaskTable.tasks_at_the_end.
          tasks: of the workers that have just answered; `refusing`: others, where nobody listens.
          away_since: of a worker without its task, as Outages.since.
        """
        kept = dict[int, LostTask]()
        for task_id, (worker, _) in at_end.items():
            task = self._tasks.get(task_id)
            if task_id in tasks.get(worker, ()):
                if task is not None:
                    kept[task_id] = task
                    task.back_since = now if task.back_since is None else task.back_since
                continue
            if task is None or task.back_since is not None:  # lost, or lost again
                task = LostTask(now, away_since(worker))
            kept[task_id], task.lacking_at = task, now
            task.lives |= worker in tasks or worker in refusing
        self._tasks = kept

    def back(self) -> set[int]:
        return {task_id for task_id, task in self._tasks.items() if task.back_since is not None}

    def overdue(self, limit_s: float, now: float) -> list[int]:
        """Their workers have been back for so long."""
        return [task_id for task_id in self.back() if now - self._back_since(task_id) >= limit_s]

    def unasked_s(self, task_id: int, now: float) -> float:
        """For so long nobody must have asked for it: since before its worker was back."""
        return now - self._tasks[task_id].lacking_at

    def needed_s(self, task_id: int) -> float:
        """For so long its clients must wait, and not ask for it."""
        task = self._tasks[task_id]
        away_s = None if task.away_since is None else self._back_since(task_id) - task.away_since
        return until_asked_s(away_s, LEAST_S if task.lives else SILENT_S)

    def unread_s(self, task_id: int, now: float) -> float:
        """For so long its worker is back."""
        return now - self._back_since(task_id)

    def left_s(self, task_id: int, limit_s: float, now: float) -> float:
        """Until it is finished for its worker, if all stays as it is; `limit_s`: as in `overdue`."""
        starving_since = self._tasks[task_id].starving_since
        left_s = limit_s - self.unread_s(task_id, now)
        if starving_since is not None:
            waited_s = now - max(starving_since, self._back_since(task_id))
            left_s = min(left_s, self.needed_s(task_id) - waited_s)
        return max(left_s, 0.0)

    def look_who_waits(self, starving: Set[int], now: float) -> list[int]:
        """`starving`: the tasks of which all clients wait for an element, and can have one of no other task. Those of
        which this has been so for as long as is needed."""
        found = []
        for task_id in self.back():
            task = self._tasks[task_id]
            if task_id not in starving:
                task.starving_since = None
                continue
            if task.starving_since is None or now - task.looked_at > _GAP_S:
                task.starving_since = now
            task.looked_at = now
            if now - max(task.starving_since, self._back_since(task_id)) >= self.needed_s(task_id):
                found.append(task_id)
        return found

    def _back_since(self, task_id: int) -> float:
        back_since = self._tasks[task_id].back_since
        assert back_since is not None
        return back_since
