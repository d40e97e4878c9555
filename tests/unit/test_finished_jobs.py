"""Who has finished is remembered for an hour, and never more than so many."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.history_of_the_last_day.finished_jobs import (
    KEPT_S,
    MOST_JOBS,
    FinishedJob,
    FinishedJobs,
)
from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import Counters
from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import Measured
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.of_finished import explain_finished
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation

JOB = FinishedJob("a", "a", "data (00)", 0.0, Allocation("uniform", 10))


def anybody(job: str) -> bool:
    return True


def test_of_ten_thousand_the_last_are_remembered() -> None:
    jobs = FinishedJobs(clock := ManualClock())
    for number in range(10_000):
        jobs.remember((f"j{number}", b"d"), replace(JOB, name=f"j{number}", job=f"j{number}", seen_at=clock.now()))
    known = jobs.all(anybody)
    assert [one.name for one in known] == [f"j{number}" for number in range(9_999, 9_999 - MOST_JOBS, -1)]
    clock.advance(KEPT_S)
    assert jobs.all(anybody) == []


def test_a_name_is_the_plans_or_the_last_of_that_job() -> None:
    jobs = FinishedJobs(ManualClock())
    for dataset in "de":
        jobs.remember(("a", dataset.encode()), replace(JOB, name=f"a, {dataset}", dataset=dataset))
    assert [jobs.find(name, anybody).dataset for name in ("a, d", "a, e", "a")] == ["d", "e", "e"]  # type: ignore[union-attr]
    assert jobs.find("b", anybody) is None
    assert jobs.find("a", lambda job: job != "a") is None, "another's"
    jobs.forget(("a", b"e"))
    jobs.forget(("a", b"e"))
    assert jobs.find("a", anybody).dataset == "d"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("job", "ago_s", "said"),
    [
        (replace(JOB, whole=True), 34.0, "finished 34 seconds ago"),
        (replace(JOB, whole=True), 60.0, "finished 1 minute ago"),
        (replace(JOB, whole=True), 3599.0, "finished 59 minutes ago"),
        (
            replace(JOB, epoch=3, acked=5, shards=9),
            240.0,
            "left in epoch 3 with 5 of 9 shards confirmed, 4 minutes ago",
        ),
        (
            replace(JOB, whole=True, totals=Counters(1, 10**9, hit_bytes=10**9, missed_bytes=5 * 10**8)),
            120.0,
            "finished 2 minutes ago: had read 1.0 GB of data (00), 500 MB from the store",
        ),
        (
            replace(JOB, whole=True, measured=Measured(2e6, 0.25, None, None)),
            120.0,
            "finished 2 minutes ago, at last 2.0 MB/s, waiting for 25% of its time",
        ),
    ],
)
def test_what_is_said(job: FinishedJob, ago_s: float, said: str) -> None:
    jobs = FinishedJobs(clock := ManualClock())
    clock.advance(ago_s)
    finished = replace(job, seen_at=clock.now() - ago_s)
    told = explain_finished(finished, jobs.ago_s(finished), "benefit", ())
    assert told.reasons == {"a": said}
    assert json.loads(json.dumps(told.as_json()))["finished"]["ago_s"] == ago_s


@pytest.mark.parametrize(
    ("hit_bytes", "stall_share", "said"),
    [
        (0, 0.05, "at last it waited for data for 5% of its time: more cache would hardly"),
        (95, 0.6, "60% of its time, though 95% of what it read came from the cache: look at what stands before"),
        (40, 0.6, "60% of its time, and 60% of what it read came from the store: the next run reads faster the more"),
    ],
)
def test_what_the_next_run_should_do_otherwise_is_by_what_was_measured(
    hit_bytes: int, stall_share: float, said: str
) -> None:
    totals = Counters(1, 100, hit_bytes=hit_bytes, missed_bytes=100 - hit_bytes)
    job = replace(JOB, whole=True, totals=totals, measured=Measured(2e6, stall_share, None, None))
    told = explain_finished(job, 1.0, "benefit", ()).finished
    assert told and said in told["next_run"]
    for unknown in (replace(job, totals=None), replace(job, measured=None)):
        told = explain_finished(unknown, 1.0, "benefit", ()).finished
        assert told and told["next_run"] == ""
