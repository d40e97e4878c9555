"""Which tasks a lost worker leaves behind, and which of them hold up their clients for nothing (pure).

An iteration (one client's epoch) ends for its clients when every task of it is finished; the task of a worker that
never returns never is. A task finishes by itself only when its source said END, and a QuiverDataset says END only when
the whole session has been read by somebody. So once any task of an iteration is finished, the tasks of lost workers
have nothing left to give and may be called finished for them. While none is, they may not: then records are still
unread, and calling the tasks finished would end the epoch short. (docs/decisions/0005 tells the one exception.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from tfquiver.service.dispatcher import journal_reader as journal


@dataclass(slots=True)
class _Iteration:
    dataset_id: str
    any_finished: bool = False
    open_tasks: dict[int, str] = field(default_factory=dict)  # task id -> worker address


class TaskTable:
    """Follows the dispatcher's updates; forgets iterations that are over."""

    def __init__(self) -> None:
        self._datasets: dict[int, str] = {}  # job id -> dataset id
        self._iterations: dict[int, _Iteration] = {}
        self._iteration_of: dict[int, int] = {}  # task id -> iteration id

    def apply(self, update: journal.Update) -> None:
        match update:
            case journal.CreateJob(job_id, dataset_id):
                self._datasets[job_id] = dataset_id
            case journal.CreateIteration(iteration_id, job_id):
                self._iterations[iteration_id] = _Iteration(self._datasets.get(job_id, ""))
            case journal.CreateTask(task_id, iteration_id, worker_address):
                if iteration := self._iterations.get(iteration_id):
                    iteration.open_tasks[task_id] = worker_address
                    self._iteration_of[task_id] = iteration_id
            case journal.TaskOver(task_id, finished):
                self._task_over(task_id, finished)
            case journal.IterationDropped(iteration_id):
                self._forget(iteration_id)

    def workers(self) -> set[str]:
        """Addresses with a task that is not finished."""
        return {worker for iteration in self._iterations.values() for worker in iteration.open_tasks.values()}

    def datasets(self) -> set[str]:
        """Ids of the data sets of iterations that are not over."""
        return {iteration.dataset_id for iteration in self._iterations.values() if iteration.open_tasks}

    def to_finish(self, lost_workers: Set[str], datasets: Iterable[str]) -> dict[str, list[int]]:
        """Worker address -> ids of its tasks that may be called finished, of iterations over `datasets` only."""
        wanted = frozenset(datasets)
        found: dict[str, list[int]] = defaultdict(list)
        for iteration in self._iterations.values():
            if iteration.any_finished and iteration.dataset_id in wanted:
                for task_id, worker in iteration.open_tasks.items():
                    if worker in lost_workers:
                        found[worker].append(task_id)
        return dict(found)

    def _task_over(self, task_id: int, finished: bool) -> None:
        iteration_id = self._iteration_of.pop(task_id, None)
        if iteration_id is None:
            return
        iteration = self._iterations[iteration_id]
        iteration.open_tasks.pop(task_id, None)
        iteration.any_finished |= finished
        # An iteration whose tasks are all finished takes no more tasks.
        if not iteration.open_tasks and iteration.any_finished:
            self._forget(iteration_id)

    def _forget(self, iteration_id: int) -> None:
        iteration = self._iterations.pop(iteration_id, None)
        for task_id in iteration.open_tasks if iteration else ():
            self._iteration_of.pop(task_id, None)
