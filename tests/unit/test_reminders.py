from __future__ import annotations

import itertools

from tfquiver.server_reachability.reminders import FIRST_S, UNTIL_SAID_S, Reminders


def test_who_waits_is_told_soon_and_then_ever_more_rarely() -> None:
    reminders = Reminders(100.0)
    assert reminders.left_s(100.5) == FIRST_S - 0.5
    told = [at for at in range(100, 20_000) if reminders.is_due(at)]
    assert told[0] <= 103 and len([at for at in told if at < 130]) <= 3, "of half a minute"
    pauses = [later - earlier for earlier, later in itertools.pairwise(told)]
    assert pauses == sorted(pauses) and pauses[-1] == 1800


def test_who_was_told_until_when_is_not_told_again_soon() -> None:
    """A server that was waited for over twenty seconds was told of three times in the same words."""
    reminders = Reminders(100.0, then_s=UNTIL_SAID_S)
    assert [at for at in range(100, 300) if reminders.is_due(at)] == [102, 162, 282]


def test_a_clock_that_stands_or_jumps_makes_one_line() -> None:
    reminders = Reminders(0.0)
    assert [reminders.is_due(at) for at in (0.0, 1.9, 2.0, 2.0, 1e9, 1e9)] == [False, False, True, False, True, False]
