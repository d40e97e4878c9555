"""What trainers say of iterators that wait is kept for some seconds, and takes little room."""

from __future__ import annotations

from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.measuring_jobs_and_stores import waiting_trainers
from tfquiver.service.coordinator.measuring_jobs_and_stores.waiting_trainers import KEPT_S, WaitingTrainers


def test_what_all_say_together_until_it_is_old() -> None:
    clock = ManualClock()
    waiting = WaitingTrainers(clock)
    waiting.say("key", "a", 5050, 2)
    clock.advance(KEPT_S / 2)
    waiting.say("key", "b", 5050, 1)
    waiting.say("key", "c", 6000, 4)
    waiting.say("other", "a", 5050, 8)
    assert waiting.of("key") == {5050: 3, 6000: 4}
    clock.advance(KEPT_S / 2)
    assert waiting.of("key") == {5050: 1, 6000: 4}
    waiting.say("key", "c", 6000, 0)
    assert waiting.of("key") == {5050: 1}
    clock.advance(KEPT_S / 2)
    assert (waiting.of("key"), waiting.of("other"), waiting.of("none")) == ({}, {}, {})


def test_what_is_made_up_pushes_out_what_was_said_longest_ago() -> None:
    waiting = WaitingTrainers(ManualClock())
    for number in range(waiting_trainers.MOST_OF_A_KEY + 1):
        waiting.say("key", str(number), 5050, 1)
    assert waiting.of("key") == {5050: waiting_trainers.MOST_OF_A_KEY}
    for number in range(waiting_trainers.MOST_KEYS):
        waiting.say(f"key {number}", "a", 5050, 1)
    assert waiting.of("key") == {}
    assert waiting.of("key 0") == {5050: 1}
