"""Which tasks a lost worker leaves behind, and which of them hold up their clients for nothing (pure).

An iteration (one client's epoch) ends for its clients when every task of it is finished; the task of a worker that
never returns never is. A task finishes by itself only when its source said END, and a QuiverDataset says END only when
the whole session has been read by somebody. So once any task of an iteration is finished, the tasks of lost workers
have nothing left to give and may be called finished for them. While none is, they may not: then records are still
unread, and calling the tasks finished would end the epoch short. (docs/decisions/0005 and 0021 tell the exceptions.)

A worker may also be killed after its client was given the end of a task, and before the dispatcher was told: when it is
back, it has a task again that its client asks for no more. `tasks_at_the_end` are those of which this may be so.

Of an iteration that its clients have left the workers keep their tasks until the dispatcher gives it up: `left`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from tfquiver.service.dispatcher.journal import journal_reader as journal


@dataclass(slots=True)
class _Iteration:
    dataset_id: str
    sources: int
    any_finished: bool = False
    ended_sources: set[int] = field(default_factory=set)  # in their newest repetition
    open_tasks: dict[int, str] = field(default_factory=dict)  # task id -> worker address
    clients: set[int] = field(default_factory=set)
    any_left: bool = False

    @property
    def at_end(self) -> bool:
        return self.any_finished or len(self.ended_sources) == self.sources > 0


class TaskTable:
    """Follows the dispatcher's updates; forgets iterations that are over."""

    def __init__(self) -> None:
        self._datasets: dict[int, str] = {}  # job id -> dataset id
        self._iterations: dict[int, _Iteration] = {}
        self._iteration_of: dict[int, int] = {}  # task id -> iteration id
        self._iteration_of_client: dict[int, int] = {}

    def apply(self, update: journal.Update) -> None:
        match update:
            case journal.CreateJob(job_id, dataset_id):
                self._datasets[job_id] = dataset_id
            case journal.CreateIteration(iteration_id, job_id, sources):
                self._iterations[iteration_id] = _Iteration(self._datasets.get(job_id, ""), sources)
            case journal.CreateTask(task_id, iteration_id, worker_address):
                if iteration := self._iterations.get(iteration_id):
                    iteration.open_tasks[task_id] = worker_address
                    self._iteration_of[task_id] = iteration_id
            case journal.ClientCame(client_id, iteration_id):
                if iteration := self._iterations.get(iteration_id):
                    iteration.clients.add(client_id)
                    self._iteration_of_client[client_id] = iteration_id
            case journal.ClientLeft(client_id):
                self._client_left(client_id)
            case journal.SplitProduced(iteration_id, source, end):
                if iteration := self._iterations.get(iteration_id):
                    iteration.ended_sources.add(source) if end else iteration.ended_sources.discard(source)
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

    def left(self) -> set[str]:
        """Ids of the data sets of iterations that are not over, and that all clients have left."""
        return {
            iteration.dataset_id
            for iteration in self._iterations.values()
            if iteration.open_tasks and iteration.any_left and not iteration.clients
        }

    def attended(self) -> set[str]:
        """Ids of the data sets of iterations that are not over, and that clients read."""
        return {iteration.dataset_id for iteration in self._iterations.values() if iteration.clients}

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

    def open_tasks(self) -> dict[int, str]:
        """Task id -> worker address."""
        return {
            task_id: worker
            for iteration in self._iterations.values()
            for task_id, worker in iteration.open_tasks.items()
        }

    def tasks_at_the_end(self) -> dict[int, tuple[str, str]]:
        """Task id -> worker address and data set id, of open tasks whose sources have told a worker the end."""
        at_end = (iteration for iteration in self._iterations.values() if iteration.at_end)
        return {
            task_id: (worker, iteration.dataset_id)
            for iteration in at_end
            for task_id, worker in iteration.open_tasks.items()
        }

    def stalled(self, tasks: Set[int]) -> dict[int, str]:
        """Task id -> data set id, of those of these tasks beside which their iteration has none that is open."""
        return {
            task_id: iteration.dataset_id
            for iteration in self._iterations.values()
            if iteration.open_tasks.keys() <= tasks
            for task_id in iteration.open_tasks
        }

    def clients(self) -> dict[str, int]:
        """Data set id -> clients of its iterations that are not over."""
        found: dict[str, int] = defaultdict(int)
        for iteration in self._iterations.values():
            found[iteration.dataset_id] += len(iteration.clients)
        return dict(found)

    def _client_left(self, client_id: int) -> None:
        iteration_id = self._iteration_of_client.pop(client_id, None)
        if iteration_id is not None:
            iteration = self._iterations[iteration_id]
            iteration.clients.discard(client_id)
            iteration.any_left = True

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
        if iteration is None:
            return
        for task_id in iteration.open_tasks:
            self._iteration_of.pop(task_id, None)
        for client_id in iteration.clients:
            self._iteration_of_client.pop(client_id, None)
