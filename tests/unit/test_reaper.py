"""Which tasks are finished in a lost worker's name, and when; the journal is a file, time and calls are arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tfquiver.clock import ManualClock
from tfquiver.content import tfrecord
from tfquiver.service.dispatcher import journal_reader as journal
from tfquiver.service.dispatcher import proto_wire
from tfquiver.service.dispatcher.reaper import Reaper, UnreadKeys
from tfquiver.service.dispatcher.task_table import TaskTable

A, B, C = "a:1", "b:1", "c:1"


def epoch(iteration: int, *workers: str, dataset: str = "ours") -> list[journal.Update]:
    job = iteration + 1000
    tasks = [journal.CreateTask(iteration * 10 + index, iteration, worker) for index, worker in enumerate(workers)]
    return [journal.CreateJob(job, dataset), journal.CreateIteration(iteration, job), *tasks]


def table(*updates: journal.Update) -> TaskTable:
    made = TaskTable()
    for update in updates:
        made.apply(update)
    return made


def test_nothing_while_no_worker_has_finished() -> None:
    made = table(*epoch(1, A, B))
    assert made.to_finish({A}, {"ours"}) == {}
    assert made.to_finish({A, B}, {"ours"}) == {}


def test_lost_workers_tasks_once_another_has_finished() -> None:
    made = table(*epoch(1, A, B, C), journal.TaskOver(11, finished=True))
    assert made.to_finish(set(), {"ours"}) == {}
    assert made.to_finish({A}, {"ours"}) == {A: [10]}
    assert made.to_finish({A, C}, {"ours"}) == {A: [10], C: [12]}


def test_a_removed_task_is_not_a_finished_one() -> None:
    made = table(*epoch(1, A, B), journal.TaskOver(11, finished=False))
    assert made.to_finish({A}, {"ours"}) == {}


def test_each_epoch_on_its_own() -> None:
    made = table(*epoch(1, A, B), *epoch(2, A, B), journal.TaskOver(21, finished=True))
    assert made.to_finish({A}, {"ours"}) == {A: [20]}


def test_other_peoples_data_sets_are_left_alone() -> None:
    made = table(*epoch(1, A, B, dataset="stock"), journal.TaskOver(11, finished=True))
    assert made.to_finish({A}, {"ours"}) == {}
    assert made.datasets() == {"stock"}


def test_epochs_that_are_over_are_forgotten() -> None:
    done = [journal.TaskOver(10, finished=True), journal.TaskOver(11, finished=True)]
    made = table(*epoch(1, A, B), *done, *epoch(2, A), journal.IterationDropped(2))
    assert made.workers() == set()
    assert made.datasets() == set()
    made.apply(journal.TaskOver(20, finished=True))  # late news of a forgotten epoch


class Service:
    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.finished: list[tuple[str, list[int]]] = []

    def unreachable(self, workers: Sequence[str]) -> set[str]:
        return self.silent & set(workers)

    def finish_tasks(self, worker: str, task_ids: Sequence[int]) -> None:
        self.finished.append((worker, list(task_ids)))


def _task(task_id: int, worker: str) -> bytes:
    return tfrecord.frame(
        proto_wire.text(3, proto_wire.integer(1, task_id) + proto_wire.integer(2, 2000) + proto_wire.text(4, worker))
    )


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    """An epoch of data set 1000 on A and B, B's task finished."""
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "1000").write_bytes(b"...QuiverDataset...")
    journal_dir = tmp_path / journal.JOURNAL_DIR
    journal_dir.mkdir()
    job = tfrecord.frame(proto_wire.text(14, proto_wire.integer(1, 5000) + proto_wire.text(3, "1000")))
    iteration = tfrecord.frame(proto_wire.text(2, proto_wire.integer(1, 2000) + proto_wire.integer(2, 5000)))
    over = tfrecord.frame(proto_wire.text(4, proto_wire.integer(1, 4001)))
    (journal_dir / "journal_0").write_bytes(job + iteration + _task(4000, A) + _task(4001, B) + over)
    return tmp_path


def test_waits_for_the_timeout_then_finishes(work_dir: Path) -> None:
    service, clock = Service(), ManualClock()
    reaper = Reaper(work_dir, service, worker_timeout_s=10, clock=clock)
    assert reaper.step() == {}
    service.silent = {A}
    assert reaper.step() == {}
    clock.advance(9.9)
    assert reaper.step() == {}
    clock.advance(0.2)
    assert reaper.step() == {A: [4000]}
    assert service.finished == [(A, [4000])]


def test_a_worker_that_is_back_starts_anew(work_dir: Path) -> None:
    service, clock = Service(), ManualClock()
    reaper = Reaper(work_dir, service, worker_timeout_s=10, clock=clock)
    service.silent = {A}
    reaper.step()
    clock.advance(9)
    service.silent = set()
    reaper.step()
    service.silent = {A}
    clock.advance(9)
    assert reaper.step() == {}
    clock.advance(10)
    assert reaper.step() == {A: [4000]}


def test_a_session_that_a_reader_left_before_its_end_is_waited_for(work_dir: Path) -> None:
    (work_dir / "datasets" / "1000").write_bytes(b"...QuiverDataset...key-1...")
    service, unread = Service(), {"key-0", "key-1"}
    service.silent = {A}
    reaper = Reaper(work_dir, service, 0, lambda: UnreadKeys(left_early=frozenset(unread)), clock=ManualClock())
    assert reaper.step() == {}
    unread.discard("key-1")
    assert reaper.step() == {A: [4000]}


def test_what_nobody_else_will_read_is_waited_for_longer(work_dir: Path) -> None:
    """A worker that was lost after the end, with what it had not delivered: it may come back, but need not."""
    (work_dir / "datasets" / "1000").write_bytes(b"...QuiverDataset...key-1...")
    service, clock, short = Service(), ManualClock(), {"key-0", "key-1"}
    reaper = Reaper(work_dir, service, 10, lambda: UnreadKeys(short=frozenset(short)), 60, clock)
    service.silent = {A}
    assert reaper.step() == {}
    clock.advance(59)
    assert reaper.step() == {}
    short.discard("key-1")
    assert reaper.step() == {A: [4000]}, "another worker has read it"
    short.add("key-1")
    assert reaper.step() == {}
    clock.advance(1)
    assert reaper.step() == {A: [4000]}, "nobody came"


def test_a_graph_without_our_op_is_left_alone(work_dir: Path) -> None:
    (work_dir / "datasets" / "1000").write_bytes(b"...TFRecordDataset...")
    service, clock = Service(), ManualClock()
    reaper = Reaper(work_dir, service, worker_timeout_s=0, clock=clock)
    service.silent = {A}
    assert reaper.step() == {}
