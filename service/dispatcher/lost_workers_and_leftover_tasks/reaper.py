"""Ends the wait for tasks that nobody will finish.

TensorFlow's dispatcher never takes back the tasks of a lost worker, and a client waits for every task of its epoch for
ever. The reaper calls such tasks finished in the worker's name (`WorkerUpdate`) once the epoch has been read by others
(task_table.py says when). Lost is who is silent for long, or at whose address nobody listens for some seconds. A worker
that answers at its address again is left alone. Where a worker was lost after the end of the source's epoch, with what
it had not delivered, a worker that comes or comes back is waited for: longer, but not for ever. And a worker that was
lost at the end of an epoch, and is back, may have a task that its client has had the end of: it is finished for it when
nobody has read from its session for long enough. (Of a worker that was not lost a client asks for more as soon as its
trainer does, however late: what it has may be all that is left of a session that nobody reads any more.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from absl import logging

from tfquiver.clock import Clock, SystemClock
from tfquiver.service.dispatcher.journal.graphs import Graphs
from tfquiver.service.dispatcher.journal.journal_reader import JOURNAL_DIR, JournalFollower
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.departures import Departures
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.held_up import Held, HeldUp
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.outages import Outages
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.seen_file import Seen, SeenFile
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.service_rpc import ServiceRpc
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.session_news import SessionNews
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.silences import Silences
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.task_table import TaskTable
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.unread_tasks import UnreadTasks
from tfquiver.service.metrics.instruments import REAPED

_LOOKS = 10  # at sessions that nobody reads, in the time that they may take
_WHO_WAITS_S = 2.0  # from one question to the next
_REFUSALS = 3  # connections, each of which the worker's machine has refused


@dataclass(frozen=True, slots=True)
class Timeouts:
    """All in seconds."""

    worker_s: float = 10.0  # of silence, and it is lost
    # Of a port where nobody listens, and it is lost, too; never more than the above. One that is restarted listens
    # again after some seconds, and need not: what it lacks is waited for all the same, as below.
    refused_s: float = 3.0
    return_s: float = 60.0  # of silence, where nobody but it reads what it was lost with
    unread_s: float = 300.0  # at the end of an epoch, of a worker that is back: nobody begins to read its task


class Reaper:
    """One pass of watching per `step()`; all state is its own. Not thread-safe but for `awaited`, `held`, `left`."""

    def __init__(
        self,
        work_dir: Path,
        service: ServiceRpc,
        news: SessionNews,
        timeouts: Timeouts | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._news = news
        self._service = service
        self._timeouts = timeouts or Timeouts()
        self._clock = clock or SystemClock()
        self._journal = JournalFollower(work_dir / JOURNAL_DIR)
        self._table = TaskTable()
        self._graphs = Graphs(work_dir)
        self.awaited: frozenset[str] = frozenset()  # workers with tasks that are not finished, when last looked at
        self._departures = Departures(self._clock)
        self._silences = Silences()
        self._told_lost: set[str] = set()
        self._seen = SeenFile(work_dir)
        before = self._seen.read(self._clock.now())
        self._outages, self._unread_tasks = Outages(before.looked, before.outages), UnreadTasks(before.tasks)
        self._is_first = True
        self._held_up = HeldUp()
        self._look_again_at = self._ask_again_at = 0.0

    @property
    def held(self) -> Mapping[str, Held]:
        """Workers that are back, and with tasks that nobody asks for, when last looked at."""
        return self._held_up.now

    @property
    def left(self) -> frozenset[str]:
        """Keys of the sessions that all trainers have left, when last looked at."""
        return self._departures.left

    def look(self) -> None:
        """Reads the journal and asks the workers. Also before the dispatcher has started: workers that were lost while
        it was away, and are back, have no tasks until then."""
        for update in self._journal.poll():
            self._table.apply(update)
        self._graphs.forget_all_but(self._table.datasets())
        workers = self.awaited = frozenset(self._table.workers())
        asked = self._silences.to_ask(workers, self._clock.now())
        tasks = self._service.tasks(sorted(asked))
        now = self._clock.now()
        self._silences.look(asked, tasks, workers, now, self._service.refusing)
        at_end = self._table.tasks_at_the_end()
        # Later others may lack tasks because they are new.
        lacking = self._table.open_tasks() if self._is_first else {task: worker for task, (worker, _) in at_end.items()}
        anew = {worker for task_id, worker in lacking.items() if worker in tasks and task_id not in tasks[worker]}
        self._outages.look(workers, tasks.keys(), anew, self._silences.since, now)
        self._unread_tasks.look(at_end, tasks, self._service.refusing, self._outages.since, now)
        self._is_first = False
        if workers:
            self._seen.write(Seen(now, self._outages.now, self._unread_tasks.tasks))
        self._departures.look(self._table, self._graphs.ours)

    def step(self) -> dict[str, list[int]]:
        """Looks, then finishes what may be finished; returns that, by worker."""
        self.look()
        now = self._clock.now()
        finished = self._of_lost_workers(now)
        for worker, task_ids in finished.items():
            silent_s = self._silences.seconds(worker, now)
            self._finish(worker, task_ids, f"has not answered for {silent_s:.1f} s, and its epoch is at its end")
        unread = self._unread(now)
        for worker, task_ids in unread.items():
            self._finish(worker, task_ids, f"is back, and for {self._timeouts.unread_s:g} s nobody has read from it")
        starved = self._starved(now)
        for worker, task_ids in starved.items():
            self._finish(worker, task_ids, "is back, and who waits for it has had all that it has")
        return finished | unread | starved

    def _finish(self, worker: str, task_ids: list[int], why: str) -> None:
        self._service.finish_tasks(worker, task_ids)
        REAPED.inc(len(task_ids))
        logging.warning("worker %s %s: finished its tasks %s", worker, why, task_ids)

    def _of_lost_workers(self, now: float) -> dict[str, list[int]]:
        lost = self._silences.lasting(self._timeouts.worker_s, now)
        lost |= self._silences.refused_for(self._timeouts.refused_s, _REFUSALS, now)
        for worker in sorted(lost - self._told_lost):
            logging.warning("worker %s is lost: epochs that others have read will end without it, others wait", worker)
        self._told_lost = lost
        ours = self._graphs.ours(self._table.datasets()) if lost else {}
        finished = self._table.to_finish(lost, ours)
        if not finished:
            return {}
        unread = self._news.unread()
        given_up = lost & self._silences.awaited_for(self._timeouts.return_s, now)
        finished = self._table.to_finish(lost, _without(unread.left_early | unread.short, ours))
        return finished | self._table.to_finish(given_up, _without(unread.left_early, ours))

    def _unread(self, now: float) -> dict[str, list[int]]:
        limit_s = self._timeouts.unread_s
        overdue = self._unread_tasks.overdue(limit_s, now)
        if not overdue or now < self._look_again_at:
            return {}
        self._look_again_at = now + limit_s / _LOOKS
        at_end = self._table.tasks_at_the_end()
        datasets = self._graphs.ours({at_end[task_id][1] for task_id in overdue})
        quiet = {name for name, keys in datasets.items() if self._news.quiet(keys, limit_s)}
        return _by_worker(at_end, (task_id for task_id in overdue if at_end[task_id][1] in quiet))

    def _starved(self, now: float) -> dict[str, list[int]]:
        """Sooner than by that limit: those of which it is known that nobody will read from them."""
        back = self._unread_tasks.back()
        if not back:
            self._held_up.nobody()
            return {}
        if now < self._ask_again_at:
            return {}
        self._ask_again_at = now + _WHO_WAITS_S
        clients, attended = self._table.clients(), self._graphs.ours(self._table.attended())
        by_key: dict[str, int] = defaultdict(int)
        for dataset, keys in attended.items():
            for key in keys:
                by_key[key] += clients[dataset]
        unasked, starving = set[int](), set[int]()
        for task_id, dataset in self._table.stalled(back).items():
            unasked_s = self._unread_tasks.unasked_s(task_id, now)
            if dataset in attended and self._news.quiet(attended[dataset], unasked_s):
                unasked.add(task_id)
                if self._news.starving({key: by_key[key] for key in attended[dataset]}, unasked_s):
                    starving.add(task_id)
        found = self._unread_tasks.look_who_waits(starving, now)
        at_end, limit_s = self._table.tasks_at_the_end(), self._timeouts.unread_s
        held = {
            task_id: (at_end[task_id][0], Held(
                self._unread_tasks.unread_s(task_id, now), self._unread_tasks.left_s(task_id, limit_s, now),
                task_id in starving,
            )) for task_id in unasked.difference(found)
        }  # fmt: skip
        self._held_up.look(held, now)
        return _by_worker(at_end, found)


def _by_worker(tasks: Mapping[int, tuple[str, str]], task_ids: Iterable[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for task_id in task_ids:
        found[tasks[task_id][0]].append(task_id)
    return dict(found)


def _without(keys: Collection[str], datasets: dict[str, frozenset[str]]) -> Iterator[str]:
    """The data sets that have none of these keys."""
    return (name for name, own in datasets.items() if own.isdisjoint(keys))
