"""What policies are told that a job could read, from what was measured and probed of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import Measured
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meter import Steps
from tfquiver.service.coordinator.probing.estimates import Ratio
from tfquiver.service.coordinator.probing.ideal import could_read, is_guess
from tfquiver.service.coordinator.probing.probe import ProbeResult

MB = 1e6


def measured(bytes_per_s: float, ideal_bytes_per_s: float | None) -> Measured:
    return Measured(bytes_per_s, 0.5, 0.5, ideal_bytes_per_s)


def probed(basis: str, hit_bytes_per_s: float) -> ProbeResult:
    ratio = Ratio(2.0, 1.9, 2.1)
    fields: dict[str, Any] = {"caching_is_wasted": False, "extra_store_bytes": 0}
    return ProbeResult("job", "data", 0.0, ratio, hit_bytes_per_s / 2, hit_bytes_per_s, basis, **fields)


def test_who_only_ever_waits_is_not_taken_for_a_slow_one() -> None:
    """Else who came first, and computes a little, would keep the cache for ever."""
    assert could_read(measured(1 * MB, None), None) == pytest.approx(10 * MB)
    assert could_read(measured(1 * MB, 3 * MB), None) == pytest.approx(3 * MB)


def test_nobody_reads_faster_than_he_was_seen_to_read_from_the_cache() -> None:
    assert could_read(measured(1 * MB, None), probed("hit", 4 * MB)) == pytest.approx(4 * MB)
    assert could_read(measured(1 * MB, 3 * MB), probed("hit", 4 * MB)) == pytest.approx(3 * MB)
    assert could_read(measured(1 * MB, None), probed("ideal", 4 * MB)) == pytest.approx(10 * MB), "that is a guess, too"


def test_of_who_reads_nothing_nothing_is_known() -> None:
    assert could_read(measured(0.0, None), None) is None


def test_what_was_not_measured_is_called_a_guess() -> None:
    assert is_guess(measured(1 * MB, None), None)
    assert is_guess(measured(1 * MB, None), probed("ideal", 4 * MB))
    assert not is_guess(measured(1 * MB, None), probed("hit", 4 * MB))
    assert not is_guess(measured(1 * MB, 3 * MB), None)
    assert not is_guess(measured(1 * MB, None), None, steps(0.2))


def steps(waited_share: float | None) -> Steps:
    return Steps(1, 8, 0.1, 0.1, None, waited_share)


def test_a_trainer_that_says_how_long_it_waits_is_believed_where_it_makes_itself_slower() -> None:
    assert could_read(measured(1 * MB, None), None, steps(0.2)) == pytest.approx(1.25 * MB), "behind a prefetch"
    assert could_read(measured(1 * MB, 1.1 * MB), None, steps(0.2)) == pytest.approx(1.1 * MB)
    assert could_read(measured(1 * MB, None), None, steps(1.0)) == pytest.approx(10 * MB)
    assert could_read(measured(1 * MB, 3 * MB), None, steps(None)) == pytest.approx(3 * MB)
    assert could_read(measured(1 * MB, None), probed("hit", 4 * MB), steps(0.9)) == pytest.approx(4 * MB)


def test_one_process_that_speaks_for_many_says_nothing_of_their_waiting() -> None:
    """The first of eight: of 800 records/s it takes 100, and waits for the others within its steps."""
    read = replace(measured(1 * MB, 5 * MB), records_per_s=800.0)
    each = Steps(1, 8, 0.98, 0.02, 100, 0.02)
    assert could_read(read, None, each) == pytest.approx(5 * MB)
    assert could_read(read, None, replace(each, batch_records=800)) == pytest.approx(1 * MB / 0.98)
    assert could_read(read, None, replace(each, batch_records=None)) == pytest.approx(1 * MB / 0.98), "it may be alone"
