"""What people are told that a job would read lies within what was measured of it, whatever that was."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.supported import supported
from tfquiver.service.coordinator.policies.views_and_plans.interface import JobView

MODEL = 1e12
rates, shares = st.floats(1e3, 1e10), st.floats(0, 1)
jobs = st.builds(
    JobView, st.just("j"), st.just("d"), st.none() | rates, st.none() | rates, st.none() | rates,
    hit_ratio=st.none() | shares, reads_bytes_per_s=st.none() | rates, ideal_guessed=st.booleans(),
)  # fmt: skip


@given(jobs, shares, rates)
def test_never_above_what_it_was_seen_to_read_or_could(job: JobView, missing: float, modelled: float) -> None:
    told = supported(job, missing, modelled)
    seen = [] if job.ideal_guessed else [job.ideal_bytes_per_s or job.hit_bytes_per_s]
    most = max([job.reads_bytes_per_s or 0.0, *(one for one in seen if one)])
    assert 0 <= told.bytes_per_s <= min(most * (1 + 1e-9), modelled)
    assert told.known == any(seen)


@given(jobs, shares, shares)
def test_more_in_the_cache_is_never_slower(job: JobView, one: float, other: float) -> None:
    less, more = (supported(job, missing, MODEL).bytes_per_s for missing in sorted((one, other)))
    assert less >= more * (1 - 1e-9)


def test_as_it_reads_now_it_reads() -> None:
    job = JobView("j", "d", 1e8, reads_bytes_per_s=2e7, hit_ratio=0.3)
    assert supported(job, 0.7, MODEL).bytes_per_s == pytest.approx(2e7)
    assert supported(replace(job, ideal_guessed=True), 0.7, MODEL).bytes_per_s == 2e7


def test_of_whom_nothing_is_measured_nothing_is_said() -> None:
    told = supported(JobView("j", "d"), 0.0, MODEL)
    assert (told.bytes_per_s, told.known) == (0.0, False)


@given(jobs, st.floats(0.99, 1), rates)
def test_who_finds_everything_now_is_promised_no_more(job: JobView, found: float, modelled: float) -> None:
    """What it still waits for is not the store: no cache makes it faster, once full or larger."""
    full = replace(job, hit_ratio=found, ideal_guessed=False)
    if full.reads_bytes_per_s:
        assert supported(full, 0.0, modelled).bytes_per_s <= full.reads_bytes_per_s * (1 + 1e-9)


def test_once_full_is_as_it_is_where_it_is_full() -> None:
    job = JobView("j", "d", 1e8, reads_bytes_per_s=2e7, hit_ratio=1.0)
    assert supported(job, 0.0, MODEL).bytes_per_s == pytest.approx(2e7)
