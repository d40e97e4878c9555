"""One node scans what nobody knows yet; where it is not heard of any more, the next one does."""

from __future__ import annotations

from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.registering_sharing_removing_datasets import first_uses
from tfquiver.service.coordinator.registering_sharing_removing_datasets.first_uses import HELD_S, FirstUses


def test_who_asks_first_scans_and_others_hear_of_it_while_it_says_so() -> None:
    clock = ManualClock()
    uses = FirstUses(clock)
    assert uses.scanned_by(b"k", "first") == ""
    for _ in range(5):
        clock.advance(HELD_S - 1)
        assert uses.scanned_by(b"k", "second") == "first"
        assert uses.scanned_by(b"k", "first") == ""
    assert uses.scanned_by(b"other", "second") == ""
    clock.advance(HELD_S)
    assert uses.scanned_by(b"k", "second") == "", "nobody has heard of the first one"
    assert uses.scanned_by(b"k", "first") == "second"
    uses.over(b"k")
    assert uses.scanned_by(b"k", "third") == ""


def test_more_than_can_be_remembered_are_scanned_all_the_same() -> None:
    clock = ManualClock()
    uses = FirstUses(clock)
    keys = [str(at).encode() for at in range(first_uses.MOST + 10)]
    assert [uses.scanned_by(key, "first") for key in keys] == [""] * len(keys)
    assert uses.scanned_by(keys[0], "second") == "first"
    assert uses.scanned_by(keys[-1], "second") == "", "not remembered"
    clock.advance(HELD_S)
    assert uses.scanned_by(keys[-1], "second") == ""
    assert uses.scanned_by(keys[-1], "first") == "second", "there is room again"
