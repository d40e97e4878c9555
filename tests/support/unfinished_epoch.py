"""An epoch of two workers, one of which has not finished its part: a dispatcher's work directory, and who is asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tfquiver.clock import ManualClock
from tfquiver.scanning import tfrecord
from tfquiver.service.dispatcher.journal import journal_reader
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.reaper import Reaper, Timeouts
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.session_news import UnreadKeys
from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire

A, B, C = "a:1", "b:1", "c:1"
KEYS = tuple(f"{digit}" * 32 + end for digit, end in enumerate(("-" + "x" * 120, "-train.2", ":" + "3" * 32)))


class Service:
    """`anew`: workers that were started again, and have not yet been told their tasks. `dead`: nobody listens there."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.dead: set[str] = set()
        self.refusing: set[str] = set()
        self.anew: set[str] = set()
        self.asked: list[str] = []
        self.finished: list[tuple[str, list[int]]] = []

    def tasks(self, workers: Sequence[str]) -> dict[str, range]:
        self.asked = list(workers)
        self.refusing = self.dead & set(workers)
        away = self.silent | self.dead
        return {worker: range(0 if worker in self.anew else 10_000) for worker in workers if worker not in away}

    def finish_tasks(self, worker: str, task_ids: Sequence[int]) -> None:
        self.finished.append((worker, list(task_ids)))


class News:
    """`asked_at`: of the sessions that have no readers; nobody has asked for them since. `waiting`: iterators."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.left_early = set[str]()
        self.short = set[str]()
        self.asked_at = dict[str, float]()
        self.waiting = dict[str, int]()
        self.looks = 0

    def unread(self) -> UnreadKeys:
        return UnreadKeys(frozenset(self.left_early), frozenset(self.short))

    def quiet(self, keys: Collection[str], seconds: float) -> bool:
        self.looks += 1
        now = self.clock.now()
        return all(key in self.asked_at and now - self.asked_at[key] >= seconds for key in keys)

    def starving(self, clients: Mapping[str, int], seconds: float) -> bool:
        now = self.clock.now()
        return all(
            0 < count <= self.waiting.get(key, 0) and now - self.asked_at.get(key, now) >= seconds
            for key, count in clients.items()
        )


def graph(*keys: str) -> bytes:
    return b"...QuiverDataset" + b"".join(proto_wire.text(8, key) + b"2" for key in keys) + b"..."


class UnfinishedEpoch:
    """Of data set 1000, in iteration 2000: A has task 4000, and B has finished 4001. Time is an argument."""

    def __init__(self, work_dir: Path) -> None:
        self.clock = ManualClock()
        self.service = Service()
        self.news = News(self.clock)
        self.graph = work_dir / "datasets" / "1000"
        self.journal = work_dir / journal_reader.JOURNAL_DIR / "journal_0"
        for file in (self.graph, self.journal):
            file.parent.mkdir()
        self.graph.write_bytes(graph(KEYS[1]))
        self._write(tfrecord.frame(proto_wire.text(14, proto_wire.integer(1, 5000) + proto_wire.text(3, "1000"))))
        self._begins(2000, 4000)
        self._work_dir = work_dir

    def reaper(self, timeouts: Timeouts | None = None) -> Reaper:
        return Reaper(self._work_dir, self.service, self.news, timeouts, self.clock)

    def finished_after(self, reaper: Reaper, most_s: int = 400) -> int:
        """Seconds until it finishes a task, from now on; most_s: it did not."""
        for second in range(most_s):
            if reaper.step():
                return second
            self.clock.advance(1)
        return most_s

    def ends(self, task: int) -> None:
        self._write(tfrecord.frame(proto_wire.text(4, proto_wire.integer(1, task))))

    def next_one(self, task: int) -> None:
        """With `task` on A, and the next one on B, which is finished."""
        self._begins(2000 + task, task)

    def opens(self, task: int, worker: str) -> None:
        """A worker more has come for the first iteration."""
        ids = proto_wire.integer(1, task) + proto_wire.integer(2, 2000) + proto_wire.text(4, worker)
        self._write(tfrecord.frame(proto_wire.text(3, ids)))

    def comes(self, client: int) -> None:
        """A trainer's iterator reads it from now on."""
        ids = proto_wire.integer(1, 2000) + proto_wire.integer(2, client)
        self._write(tfrecord.frame(proto_wire.text(6, ids)))

    def quiet(self) -> None:
        """Nobody asks for its session from now on."""
        self.news.asked_at = {KEYS[1]: self.clock.now()}

    def _begins(self, iteration: int, task: int) -> None:
        of_the_job = proto_wire.integer(1, iteration) + proto_wire.integer(2, 5000)
        self._write(tfrecord.frame(proto_wire.text(2, of_the_job)))
        for number, worker in ((task, A), (task + 1, B)):
            ids = proto_wire.integer(1, number) + proto_wire.integer(2, iteration)
            self._write(tfrecord.frame(proto_wire.text(3, ids + proto_wire.text(4, worker))))
        self.ends(task + 1)

    def _write(self, record: bytes) -> None:
        with self.journal.open("ab") as file:
            file.write(record)
