"""Which tasks of lost workers may be finished in their name, and when nobody reads a pipeline any more."""

from __future__ import annotations

import pytest

from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.service.dispatcher.journal import journal_reader as journal
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.session_news import all_quiet
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.task_table import TaskTable

A, B, C = "a:1", "b:1", "c:1"


def epoch(iteration: int, *workers: str, dataset: str = "ours") -> list[journal.Update]:
    job = iteration + 1000
    tasks = [journal.CreateTask(iteration * 10 + index, iteration, worker) for index, worker in enumerate(workers)]
    return [journal.CreateJob(job, dataset), journal.CreateIteration(iteration, job, sources=1), *tasks]


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


def session(**fields: int) -> coordinator_pb2.SessionInfo:
    return coordinator_pb2.SessionInfo(**{"idle_ms": 300_000, "ended": True, **fields})


@pytest.mark.parametrize(
    ("sessions", "quiet"),
    [
        ([session()], True),
        ([session(), session(ended=False)], True),
        ([], False),
        ([session(ended=False)], False),
        ([session(), session(readers=1)], False),
        ([session(), session(ended=False, idle_ms=299_999)], False),
        ([session(), session(ended=False, left_early=1)], False),
        ([session(), session(left_early=1)], True),
    ],
)
def test_when_nobody_reads_a_pipelines_sessions(sessions: list[coordinator_pb2.SessionInfo], quiet: bool) -> None:
    assert all_quiet(sessions, 300) is quiet


def test_the_end_of_all_sources_is_the_end_of_an_epoch_too() -> None:
    """All workers may be lost before any could say that it has finished."""
    made = table(*epoch(1, A, B))
    assert made.tasks_at_the_end() == {}
    made.apply(journal.SplitProduced(1, 0, end=False))
    assert made.tasks_at_the_end() == {}
    made.apply(journal.SplitProduced(1, 0, end=True))
    assert made.tasks_at_the_end() == {10: (A, "ours"), 11: (B, "ours")}
    made.apply(journal.SplitProduced(1, 0, end=False))
    assert made.tasks_at_the_end() == {}, "repeat() has begun another time"
    made.apply(journal.TaskOver(10, finished=True))
    assert made.tasks_at_the_end() == {11: (B, "ours")}


def test_a_pipeline_is_at_its_end_when_each_source_is() -> None:
    made = table(journal.CreateJob(5, "ours"), journal.CreateIteration(1, 5, sources=2), journal.CreateTask(10, 1, A))
    made.apply(journal.SplitProduced(1, 0, end=True))
    assert made.tasks_at_the_end() == {}
    made.apply(journal.SplitProduced(1, 1, end=True))
    assert made.tasks_at_the_end() == {10: (A, "ours")}
