"""What is recorded of a cluster's jobs can be simulated: jobs by when they came and went, and what they read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S
from tfquiver.service.sim.workloads_and_recordings import files
from tfquiver.service.sim.workloads_and_recordings.recorded import as_now
from tfquiver.service.sim.workloads_and_recordings.recording import Recorder
from tfquiver.service.sim.workloads_and_recordings.seen import Dataset, Seen

MB = 10**6
IMAGES, TEXT = (
    Dataset("aa" * 32, "images", 100 * MB, 104 * MB, 50, 1000),
    Dataset("bb" * 32, "text", 30 * MB, 0, 15, 300),
)


def reads(job: str, dataset: Dataset, read_bytes: int, missed_bytes: int = 0, **more: Any) -> Seen:
    return Seen(job, dataset, True, 0.0, read_bytes, missed_bytes, **more)


def away(job: str, dataset: Dataset, read_bytes: int, idle_s: float) -> Seen:
    return Seen(job, dataset, False, idle_s, read_bytes)


def recorded(recorder: Recorder, **more: Any) -> Any:
    return files.scenario(json.loads(json.dumps(recorder.scenario(50 * MB, **more))))


def test_a_job_that_comes_and_goes() -> None:
    recorder = Recorder()
    recorder.poll(0.0, [])
    recorder.poll(10.0, [reads("a", IMAGES, 2 * MB, 1 * MB, ideal_bytes_per_s=8e6)])
    recorder.poll(40.0, [reads("a", IMAGES, 190 * MB, 90 * MB, ideal_bytes_per_s=6e6)])
    recorder.poll(45.0, [away("a", IMAGES, 200 * MB, 3.0)])
    recorder.poll(42.0 + GONE_S, [])
    made = recorded(recorder)
    (job,) = made.trace.jobs
    assert (job.name, job.dataset, job.submit_s, job.ideal_bytes_per_s) == ("a", "images", 10.0, 6e6)
    assert job.total_bytes == pytest.approx(200 * MB)
    assert (job.recorded.read_bytes, job.recorded.ended_s, job.recorded.began_before) == (200 * MB, 42.0, False)
    assert made.trace.stored["images"].disk_bytes == 104 * MB
    assert (made.cluster.cache_bytes, made.sees) == (50 * MB, "measured")


def test_accelerators_are_the_most_that_its_training_processes_ever_said() -> None:
    recorder = Recorder()
    recorder.poll(0.0, [])
    recorder.poll(10.0, [reads("a", IMAGES, 2 * MB, accelerators=4), reads("b", TEXT, MB)])
    recorder.poll(20.0, [reads("a", IMAGES, 9 * MB, accelerators=8), reads("b", TEXT, 2 * MB)])
    recorder.poll(30.0, [reads("a", IMAGES, 10 * MB), reads("b", TEXT, 3 * MB)])
    made = recorded(recorder)
    assert [job.accelerators for job in made.trace.jobs] == [8, 1]
    assert made.cluster.accelerators == 9


def test_a_jobs_window_is_the_most_that_its_readers_ever_asked_for_at_a_time() -> None:
    recorder = Recorder()
    recorder.poll(0.0, [])
    for at, window in enumerate([4, 12 * MB, 0], 1):
        recorder.poll(float(at), [reads("a", IMAGES, at * MB, window_bytes=window), reads("b", TEXT, MB)])
    a, b = recorded(recorder).trace.jobs
    assert (a.window_bytes, b.window_bytes) == (12 * MB, None)


def test_absurdly_many_accelerators_make_a_scenario_that_can_be_read() -> None:
    recorder = Recorder()
    recorder.poll(0.0, [])
    recorder.poll(1.0, [reads(str(at), IMAGES, MB, accelerators=2**63) for at in range(20)])
    assert recorded(recorder).cluster.accelerators == 10_000_000


def test_between_two_epochs_it_is_the_same_job_and_after_that_another() -> None:
    recorder = Recorder()
    recorder.poll(0.0, [])
    recorder.poll(1.0, [reads("a", IMAGES, 100)])
    recorder.poll(2.0, [away("a", IMAGES, 500, 0.5)])
    recorder.poll(20.0, [reads("a", IMAGES, 900)])
    recorder.poll(100.0, [])
    recorder.poll(200.0, [reads("a", IMAGES, 1000)])
    first, second = recorded(recorder).trace.jobs
    assert [first.recorded.read_bytes, second.recorded.read_bytes] == [900, 100], "each byte once"
    assert [first.name, second.name] == ["a", "a (2)"]
    assert (first.recorded.ended_s, second.recorded.ended_s) == (20.0, None)


def test_one_that_came_and_went_between_two_polls() -> None:
    recorder = Recorder()
    recorder.poll(0.0, [away("b", TEXT, 700, 100.0)])
    recorder.poll(10.0, [away("a", TEXT, 500, 0.25), away("b", TEXT, 700, 110.0)])
    recorder.poll(11.0, [away("a", TEXT, 600, 1.25)])
    (job,) = recorded(recorder).trace.jobs
    assert (job.name, job.submit_s, job.recorded.read_bytes) == ("a", 0.0, 600)


def test_of_what_read_before_only_the_rest_is_recorded() -> None:
    recorder = Recorder()
    recorder.poll(0.0, [reads("a", TEXT, 10**9), away("b", TEXT, 10**9, 600.0)])
    recorder.poll(5.0, [reads("a", TEXT, 10**9 + 70), reads("b", TEXT, 10**9 + 7)])
    a, b = recorded(recorder).trace.jobs
    assert (a.recorded.read_bytes, a.recorded.began_before) == (70, True)
    assert (b.recorded.read_bytes, b.recorded.began_before) == (7, False), "what it read an hour ago is not new"


def test_a_coordinator_that_restarts_counts_from_0() -> None:
    recorder = Recorder()
    for at, total in enumerate([0, 100, 300, 20, 50]):
        recorder.poll(float(at), [reads("a", TEXT, total)])
    assert recorded(recorder).trace.jobs[0].recorded.read_bytes == 300 + 50


def test_who_ended_before_a_restart_did_not_end_with_it() -> None:
    """The coordinator is killed at 15 s and is back at 200 s, when it takes all that it knows for just left."""
    recorder = Recorder()
    recorder.poll(0.0, [])
    for at in range(1, 13):
        recorder.poll(float(at), [reads("a", IMAGES, at * MB), reads("b", TEXT, at * MB), reads("c", TEXT, at * MB)])
    recorder.poll(14.0, [away("a", IMAGES, 13 * MB, 1.0), reads("b", TEXT, 14 * MB), away("c", TEXT, 13 * MB, 1.0)])
    for at in range(201, 251):
        a = away("a", IMAGES, 0, at - 200.0)
        b = reads("b", TEXT, (at - 200) * MB) if at >= 205 else away("b", TEXT, 0, at - 200.0)
        c = away("c", TEXT, MB if at >= 203 else 0, at - (202.0 if at >= 203 else 200.0))
        recorder.poll(float(at), [a, b, c])
    jobs = {job.name: job.recorded for job in recorded(recorder).trace.jobs}
    assert {name: one.ended_s for name, one in jobs.items()} == {"a": 13.0, "b": None, "c": 202.0}
    assert {name: one.read_bytes // MB for name, one in jobs.items()} == {"a": 13, "b": 14 + 50, "c": 13 + 1}


def test_the_store_is_as_fast_as_it_was_while_a_job_waited() -> None:
    recorder = Recorder()
    for at in range(61):
        waits = 20 < at <= 45
        missed = (at if at < 20 else 20 + 3 * (at - 20)) * MB
        recorder.poll(float(at), [reads("a", IMAGES, at, at, stall_share=0.9 if waits else 0.0)], {"node": missed})
    assert recorded(recorder).cluster.remote_bytes_per_s == pytest.approx(3e6, rel=0.01)


def test_nodes_that_come_back_one_by_one_have_not_read_all_they_ever_did_just_now() -> None:
    """After the coordinator's restart; the third was started anew, too."""
    recorder = Recorder()
    for at in range(61):
        told = {"a": 50_000 * MB + at * MB, "b": 70_000 * MB + 2 * at * MB, "c": (at if at < 30 else at - 30) * MB}
        there = {name: told[name] for name in told if at < 30 or at >= {"a": 32, "b": 36, "c": 31}[name]}
        recorder.poll(float(at), [reads("job", IMAGES, at, at, stall_share=0.9)], there)
    assert recorded(recorder).cluster.remote_bytes_per_s == pytest.approx(4e6, rel=0.01)


def test_nobody_is_named_who_does_not_want_to_be() -> None:
    recorder = Recorder()
    recorder.poll(0.0, [])
    recorder.poll(1.0, [reads("secret", IMAGES, 5), reads("other", TEXT, 5)])
    text = json.dumps(recorder.scenario(0, anonymous=True))
    assert "secret" not in text and "images" not in text and IMAGES.digest not in text
    assert [job.name for job in recorded(recorder, anonymous=True).trace.jobs] == ["job", "job (2)"]


def test_while_nothing_was_read_there_is_no_trace() -> None:
    recorder = Recorder()
    recorder.poll(0.0, [reads("a", IMAGES, 0)])
    assert recorded(recorder).trace is None
    assert recorder.silent == 1


def test_those_that_read_now() -> None:
    told = [reads("a", IMAGES, 5, ideal_bytes_per_s=2e6), reads("b", TEXT, 5), away("c", TEXT, 5, 1.0)]
    made = as_now(told, 3.0)
    assert [(job.name, job.ideal_bytes_per_s, job.total_bytes) for job in made.jobs] == [
        ("a", 2e6, 300 * MB),
        ("b", 2e6, 90 * MB),
    ]
    with pytest.raises(errors.NotFoundError, match="no job reads now"):
        as_now(told[2:], 3.0)
    with pytest.raises(errors.NotFoundError, match="ask again"):
        as_now(told[1:2], 3.0)


counts = st.one_of(st.integers(0, 1000), st.integers(0, 2**64 - 1))
rates = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))
datasets = st.builds(
    Dataset, st.sampled_from(["aa", "bb", "cc"]), st.sampled_from(["", "x", "x (2)", "\x1b[31m" * 99]), counts, counts,
    counts, counts,
)  # fmt: skip
seen = st.builds(
    Seen, st.sampled_from(["a", "b", "a (2)", "", "long" * 99]), datasets, st.booleans(), st.floats(), counts, counts,
    rates, st.floats(), counts, counts,
)  # fmt: skip
stores = st.none() | st.dictionaries(st.sampled_from("xy"), counts)
polls = st.lists(st.tuples(st.floats(0, 1e12), st.lists(seen, max_size=4), stores), max_size=6)


@pytest.mark.slow
@given(polls, st.integers(-1, 2**64), st.booleans())
def test_whatever_is_told_can_be_read_again(
    told: list[tuple[float, list[Seen], dict[str, int] | None]], cache_bytes: int, anonymous: bool
) -> None:
    recorder, now = Recorder(), 0.0
    for after_s, every, store_bytes in told:
        now += after_s
        recorder.poll(now, every, store_bytes)
        made = json.loads(json.dumps(recorder.scenario(cache_bytes, anonymous), allow_nan=False))
        jobs = files.scenario(made).trace
        assert (jobs is None) == (recorder.jobs == recorder.silent)
