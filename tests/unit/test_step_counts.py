"""Steps are counted with their time and what lies between them, whatever is nested, fails or runs side by side."""

from __future__ import annotations

import threading

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tfquiver.tensorflow_client.step_times.step_counts import StepCounts, StepTotals


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def made(counts: StepCounts, clock: Clock, seconds: float, after_s: float = 0.0, **end: int) -> None:
    clock.now += after_s
    counts.begin()
    clock.now += seconds
    counts.end(**end)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counts(clock: Clock) -> StepCounts:
    """Its first step is over."""
    counts = StepCounts(clock)
    made(counts, clock, 30.0)
    assert counts.totals == StepTotals(), "it traced and compiled"
    return counts


def test_steps_and_what_lies_between(counts: StepCounts, clock: Clock) -> None:
    for _ in range(4):
        made(counts, clock, 0.5, 0.25, records=32)
    assert counts.totals == StepTotals(4, 2.0, 1.0, 128)


def test_a_pause_lies_between_no_steps(counts: StepCounts, clock: Clock) -> None:
    made(counts, clock, 0.5)
    counts.pause()
    made(counts, clock, 0.5, 60.0, steps=10)
    assert counts.totals == StepTotals(11, 1.0, 0.0)


def test_what_has_begun_and_never_ends_is_none_once_something_else_comes(counts: StepCounts, clock: Clock) -> None:
    """Keras tells of the beginning of a step that finds no more data, or fails, and not of its end."""
    for _ in range(3):
        counts.begin()
        clock.now += 5.0
        counts.pause()
        made(counts, clock, 0.5, 7.0)
    assert counts.totals == StepTotals(3, 1.5, 0.0)


def test_one_within_another_is_a_part_of_it(counts: StepCounts, clock: Clock) -> None:
    counts.begin()
    made(counts, clock, 0.5, 0.25)
    clock.now += 0.25
    counts.end()
    assert counts.totals == StepTotals(1, 1.0, 0.0)


def test_what_raises_is_no_step(counts: StepCounts, clock: Clock) -> None:
    made(counts, clock, 1.0, 1.0, whole=False)
    made(counts, clock, 0.5, 1.0)
    assert counts.totals == StepTotals(1, 0.5, 0.0)
    counts.end()
    assert counts.totals.steps == 1, "without a beginning"


def test_threads_make_steps_side_by_side_and_their_time_counts_once(counts: StepCounts, clock: Clock) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def other() -> None:
        counts.begin()
        begun.set()
        assert go_on.wait(30)
        counts.end()

    thread = threading.Thread(target=other)
    thread.start()
    assert begun.wait(30)
    made(counts, clock, 1.0, 1.0)
    clock.now += 1.0
    go_on.set()
    thread.join()
    assert counts.totals == StepTotals(2, 3.0, 0.0)


@given(st.lists(st.sampled_from(["begin", "end", "fails", "pause", "wait"]), max_size=60))
def test_whatever_is_called_no_more_time_is_counted_than_has_passed(calls: list[str]) -> None:
    clock = Clock()
    counts, before = StepCounts(clock), StepTotals()
    for call in calls:
        clock.now += 1.0
        match call:
            case "begin":
                counts.begin()
            case "end":
                counts.end()
            case "fails":
                counts.end(whole=False)
            case "pause":
                counts.pause()
        now = counts.totals
        assert now.steps >= before.steps
        assert now.step_s >= before.step_s
        assert now.between_s >= before.between_s
        assert now.step_s + now.between_s <= clock.now - 100.0
        before = now
