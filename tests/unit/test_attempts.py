from __future__ import annotations

import pytest

from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.stores.attempts import Attempts, Transient, Unreachable, on_retry


class Timed:
    """Attempts on a clock of its own; `pauses` are the backoffs."""

    def __init__(self, call_s: float = 0.0) -> None:
        self.clock, self.call_s = ManualClock(), call_s
        self.pauses: list[float] = []
        self.left: list[float] = []
        self.attempts = Attempts(self.clock, self.pause, lambda low, high: high)

    def pause(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        self.clock.advance(seconds)
        return False

    def fail(self, left_s: float) -> None:
        self.left.append(left_s)
        self.clock.advance(self.call_s)
        raise Transient("503 busy")


def test_backs_off_until_the_deadline_and_names_what_failed() -> None:
    timed = Timed(call_s=1.0)
    with pytest.raises(errors.UnavailableError, match=r"^gs://b/o: 503 busy \(tried \d+ times in "):
        timed.attempts.run("gs://b/o", 30.0, timed.fail)
    assert timed.clock.now() <= 31.0
    assert timed.pauses[:6] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
    assert max(timed.pauses) == 5.0
    assert timed.left[0] == 30.0
    assert timed.left == sorted(timed.left, reverse=True)


def test_an_attempt_that_the_deadline_cuts_off_does_not_hide_what_failed() -> None:
    """What came was not what was asked for; the last time nothing had come when time was up."""
    timed = Timed()

    def fail(left_s: float) -> None:
        if left_s < 0.5:
            timed.clock.advance(left_s)
            raise Transient("timed out")
        timed.fail(left_s)

    expected = r"^gs://b/o: 503 busy \(tried 4 times in 1\.0 s; the last one was cut off\)$"
    with pytest.raises(errors.UnavailableError, match=expected):
        timed.attempts.run("gs://b/o", 1.0, fail)
    with pytest.raises(errors.UnavailableError, match=r"^gs://b/o: timed out \(tried 1 times in 0\.4 s\)$"):
        timed.attempts.run("gs://b/o", 0.4, fail)


def test_success_after_failures() -> None:
    timed, outcomes = Timed(), [Transient("a"), Transient("b"), 7]

    def attempt(_: float) -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Transient):
            raise outcome
        return outcome

    assert timed.attempts.run("x", 10.0, attempt) == 7


def test_other_errors_are_not_tried_again() -> None:
    timed = Timed()

    def attempt(_: float) -> None:
        timed.left.append(1)
        raise errors.StaleDigestError("gs://b/o changed")

    with pytest.raises(errors.StaleDigestError):
        timed.attempts.run("x", 10.0, attempt)
    assert len(timed.left) == 1


def test_closing_the_store_ends_the_wait() -> None:
    attempts = Attempts()

    def attempt(_: float) -> None:
        attempts.stop()
        raise Transient("busy")

    with pytest.raises(errors.CancelledError_, match="gs://b/o: the store was closed"):
        attempts.run("gs://b/o", 3600.0, attempt)
    with pytest.raises(errors.CancelledError_):
        attempts.run("gs://b/o", 3600.0, attempt)


def test_a_store_that_never_answered_is_given_up_soon_and_one_that_did_is_waited_for() -> None:
    timed = Timed()
    timed.attempts = Attempts(timed.clock, timed.pause, lambda low, high: high, "check the endpoint")

    def nobody(_: float) -> None:
        raise Unreachable("connection refused")

    with pytest.raises(errors.UnavailableError, match=r"connection refused .*; check the endpoint"):
        timed.attempts.run("s3://b/o", 60.0, nobody)
    assert timed.clock.now() <= 2.0
    timed.attempts.run("s3://b/o", 60.0, lambda _: None)
    start = timed.clock.now()
    with pytest.raises(errors.UnavailableError):
        timed.attempts.run("s3://b/o", 60.0, nobody)
    assert timed.clock.now() - start > 50.0


def test_whoever_waits_is_told_that_it_is_tried_again() -> None:
    timed, told = Timed(), []
    token = on_retry.set(told.append)
    try:
        with pytest.raises(errors.UnavailableError):
            timed.attempts.run("gs://b/o", 1.0, timed.fail)
    finally:
        on_retry.reset(token)
    assert len(told) == len(timed.pauses) > 1
    assert told[0].startswith("gs://b/o: 503 busy; trying again for 1 s")
