"""Steps are kept of jobs that are measured, found by their data sets, and forgotten with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import FORGET_S, JobMeters
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meter import SILENT_S, StepReading
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meters import StepMeters

TRAIN, EVAL = b"t" * 32, b"e" * 32
ONE = StepReading(0, 0.0, 0.0, 0, accelerators=2)
SESSIONS = {
    "train": ("job", "key 1", TRAIN), "eval": ("job", "key 2", EVAL), "once": ("", "key 3:of an iterator", TRAIN)
}  # fmt: skip


def session(session_id: str) -> Any:
    job, key, digest_id = SESSIONS[session_id]
    return SimpleNamespace(job=job, session_key=key, reads=(job or key, digest_id))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def meters(clock: ManualClock) -> JobMeters:
    return JobMeters(clock, session)


@pytest.fixture
def steps(clock: ManualClock, meters: JobMeters) -> StepMeters:
    return StepMeters(clock, meters)


def heard(meters: JobMeters, *session_ids: str) -> None:
    meters.take(pb2.ReaderReport(session_id=one, reader_id=one) for one in session_ids)


def test_those_of_a_job_are_those_of_all_its_data_sets(meters: JobMeters, steps: StepMeters) -> None:
    assert not steps.take("job", "p", ONE), "nobody reads by that name"
    heard(meters, "train", "eval")
    assert steps.take("job", "p", ONE)
    assert steps.of(("job", TRAIN)) == steps.of(("job", EVAL))
    assert steps.of(("another", TRAIN)) is None
    assert set(meters.of_name("job")) == {("job", TRAIN), ("job", EVAL)}


def test_a_job_without_a_name_is_found_by_what_is_claimed_of_its_keys(meters: JobMeters, steps: StepMeters) -> None:
    heard(meters, "once")
    assert steps.take("key 3", "p", ONE)
    assert steps.of(("key 3:of an iterator", TRAIN)) is not None


def test_they_are_forgotten_when_nobody_says_anything_any_more(
    clock: ManualClock, meters: JobMeters, steps: StepMeters
) -> None:
    heard(meters, "train", "eval")
    steps.take("job", "p", ONE)
    clock.advance(SILENT_S)
    assert steps.of(("job", TRAIN)) is None
    steps.take("job", "p", ONE)
    clock.advance(FORGET_S / 2)
    heard(meters, "eval")
    clock.advance(FORGET_S / 2)
    heard(meters, "eval")
    assert set(meters.of_name("job")) == {("job", EVAL)}
    assert steps.take("job", "p", ONE)
    clock.advance(FORGET_S)
    heard(meters, "once")
    assert not meters.of_name("job")
    assert not steps.take("job", "p", ONE)
    assert steps.of(("job", EVAL)) is None
