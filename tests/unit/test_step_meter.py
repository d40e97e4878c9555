"""What training processes say of their steps becomes the job's, whoever says what and when."""

from __future__ import annotations

import random
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meter import (
    MOST_ACCELERATORS,
    MOST_PROCESSES,
    SILENT_S,
    StepMeter,
    StepReading,
    Steps,
)


def reading(seconds: float, step_s: float = 0.4, between_s: float = 0.1, records: int = 0) -> StepReading:
    """After so many seconds."""
    steps = int(seconds / (step_s + between_s))
    return StepReading(steps, steps * step_s, steps * between_s, steps * records, accelerators=4)


def heard(seconds: int = 30, every: int = 5, **how: float) -> StepMeter:
    meter = StepMeter()
    for second in range(0, seconds + 1, every):
        meter.report("p", reading(second, **how), 1000.0 + second)  # type: ignore[arg-type]
    return meter


def known(meter: StepMeter, now: float) -> Steps:
    steps = meter.steps(now)
    assert steps is not None
    return steps


def test_one_process() -> None:
    meter = StepMeter()
    assert meter.steps(1000.0) is None
    meter.report("p", reading(0, records=256), 1000.0)
    assert known(meter, 1000.0) == Steps(1, 4), "no step yet"
    for second in range(5, 31, 5):
        meter.report("p", reading(second, records=256), 1000.0 + second)
    steps = known(meter, 1030.0)
    assert (steps.processes, steps.accelerators, steps.batch_records) == (1, 4, 256)
    assert (steps.step_s, steps.between_s) == (pytest.approx(0.4), pytest.approx(0.1))
    assert steps.waited_share == pytest.approx(0.2)


def test_processes_that_train_together_add_up_until_they_are_gone() -> None:
    meter = StepMeter()
    for second in range(0, 31, 5):
        for name in "abcd":
            meter.report(name, reading(second, records=64), float(second))
    steps = known(meter, 30.0)
    assert (steps.processes, steps.accelerators, steps.batch_records) == (4, 16, 256)
    assert steps.waited_share is None, "each waits for the others within its steps"
    meter.report("a", reading(80, records=64), 80.0)
    assert known(meter, 89.9).processes == 4
    assert known(meter, 90.0 + 1).accelerators == 4
    assert meter.steps(80.0 + SILENT_S) is None


def test_who_fetches_within_the_step_says_nothing_of_waiting() -> None:
    assert known(heard(between_s=0.001), 1030.0).waited_share is None
    meter = StepMeter()
    for second in range(0, 31, 5):
        meter.report("p", replace(reading(second), waits_inside=True), float(second))
    steps = known(meter, 30.0)
    assert steps.waited_share is None
    assert steps.step_s == pytest.approx(0.4)


def test_the_newest_window_counts() -> None:
    meter, last = StepMeter(), reading(60, 0.1, 0.9)
    for second in range(0, 61, 5):
        meter.report("p", reading(second, 0.1, 0.9), float(second))
    assert known(meter, 60.0).waited_share == pytest.approx(0.9)
    for second in range(5, 31, 5):
        more = reading(second)
        both = StepReading(last.steps + more.steps, last.step_s + more.step_s, last.between_s + more.between_s)
        meter.report("p", both, 60.0 + second)
    assert known(meter, 90.0).waited_share == pytest.approx(0.2)


def test_late_and_repeated_reports_change_nothing() -> None:
    meter, rng, reports = heard(), random.Random(3), [reading(second) for second in range(0, 31, 5)]
    before = known(meter, 1030.0)
    for _ in range(50):
        meter.report("p", rng.choice(reports), 1030.0)
    assert known(meter, 1030.0) == before


def test_a_long_validation_is_no_lie() -> None:
    meter = StepMeter()
    for second in range(0, 301, 5):
        meter.report("p", StepReading(10, 5.0, 0.0), float(second))
    meter.report("p", StepReading(11, 5.5, 300.0), 305.0)
    meter.report("p", StepReading(31, 15.5, 300.0), 320.0)
    assert known(meter, 320.0).step_s == pytest.approx(0.5)


def test_who_claims_time_that_has_not_passed_is_not_counted() -> None:
    meter = StepMeter()
    meter.report("p", StepReading(0, 0.0, 0.0), 0.0)
    for second in range(1, 100):
        meter.report("p", StepReading(second, 1e6 * second, 1e6 * second), float(second))
    assert known(meter, 99.0).step_s is None


def test_thousands_of_processes_are_added_up_once_until_one_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job may have a thousand sessions; each is asked about when they are listed."""
    meter, added = heard(), list[int]()
    add = meter._steps
    monkeypatch.setattr(StepMeter, "_steps", lambda _, living: added.append(len(living)) or add(living))
    meter.report("q", reading(0), 1030.0)
    assert known(meter, 1030.0).processes == known(meter, 1089.0).processes == 2
    assert added == [2]
    meter.report("q", reading(60), 1090.0)
    assert known(meter, 1090.0).processes == known(meter, 1100.0).processes == 1
    assert meter.steps(1150.0) is meter.steps(1160.0) is None
    assert added == [2, 1]


def test_there_are_not_any_number_of_processes() -> None:
    meter = StepMeter()
    for number in range(MOST_PROCESSES + 50):
        meter.report(f"p{number}", StepReading(0, 0.0, 0.0, 0, 1), 1.0)
    assert known(meter, 1.0).processes == MOST_PROCESSES


_NUMBERS = st.integers(0, 2**53)
_READINGS = st.builds(
    StepReading,
    _NUMBERS,
    _NUMBERS.map(lambda us: us / 1e6),
    _NUMBERS.map(lambda us: us / 1e6),
    _NUMBERS,
    st.integers(0, MOST_ACCELERATORS),
    st.booleans(),
)


@given(st.lists(st.tuples(st.sampled_from("abc"), _READINGS, st.floats(-1e6, 1e6)), max_size=40))
def test_whatever_is_reported_what_comes_out_can_be(reports: list[tuple[str, StepReading, float]]) -> None:
    """And a clock that jumps."""
    meter, newest = StepMeter(), float("-inf")
    for name, one, now in reports:
        meter.report(name, one, now)
        newest = max(newest, now)
        if (steps := meter.steps(newest)) is None:
            continue  # the last that was heard of them was of a time before
        assert 1 <= steps.processes <= 3
        assert steps.processes <= steps.accelerators <= 3 * MOST_ACCELERATORS
        assert steps.batch_records is None or steps.batch_records >= 1
        assert steps.step_s is None or 0 <= steps.step_s < float("inf")
        assert steps.waited_share is None or 0 < steps.waited_share <= 1


@given(st.lists(st.tuples(st.floats(0.001, 2.0), st.floats(0.0, 2.0)), min_size=1, max_size=80), st.randoms())
def test_lost_and_repeated_reports_do_not_change_the_sum(steps: list[tuple[float, float]], rng: random.Random) -> None:
    """Of an honest process: what its windows hold is what it did, however many of its reports arrive."""
    told, now, total = [(0.0, StepReading(0, 0.0, 0.0))], 0.0, StepReading(0, 0.0, 0.0)
    for step_s, between_s in steps:
        now += step_s + between_s
        total = StepReading(total.steps + 1, total.step_s + step_s, total.between_s + between_s)
        told.append((now, total))
    meter = StepMeter()
    meter.report("p", told[0][1], 0.0)
    for at, one in told[1:]:
        for _ in range(rng.randrange(3)):
            meter.report("p", one, at)
    meter.report("p", total, now)
    seen = known(meter, now)
    assert seen.step_s is not None
    assert min(one for one, _ in steps) * 0.999 <= seen.step_s <= max(one for one, _ in steps) * 1.001
