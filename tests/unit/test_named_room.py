"""Room for data sets that have names: what is refused, what goes for another, and what is said of either."""

from __future__ import annotations

import pytest

from tfquiver import errors
from tfquiver.service.coordinator.named_dataset_lifecycle.room_for_pins_and_when_full.room import ToEvict


def to_evict(when_full: str, wanted_bytes: int, oldest: list[tuple[str, int]]) -> tuple[list[str], int]:
    """And how many of these were looked at."""
    room, looked_at = ToEvict(when_full, "x", wanted_bytes, free_bytes=100), 0
    while not room.is_enough and looked_at < len(oldest):
        room.show(*oldest[looked_at])
        looked_at += 1
    return room.names(len(oldest) - looked_at), looked_at


def test_what_does_not_fit_is_refused_or_the_oldest_data_sets_go_whole() -> None:
    old, new, empty = ("old", 60), ("new", 60), ("empty", 0)
    assert to_evict("manual", 100, [old]) == ([], 0)
    assert to_evict("partial", 200, [old]) == ([], 0)
    assert to_evict("dataset_lru", 150, [empty, old, new]) == (["old"], 2)
    assert to_evict("dataset_lru", 200, [old, new]) == (["old", "new"], 2)
    with pytest.raises(errors.ResourceExhaustedError, match=r"x needs 150 B .* some of old \(60 B\), new"):
        to_evict("manual", 150, [old, new])
    with pytest.raises(errors.ResourceExhaustedError, match=r"9 \(60 B\); and up to 4990 more$"):
        to_evict("manual", 150, [(str(number), 60) for number in range(5000)])
    with pytest.raises(errors.ResourceExhaustedError, match="nothing can be evicted: all else is pinned, or read"):
        to_evict("dataset_lru", 150, [empty])


def test_where_all_that_may_go_is_too_little_that_is_said_and_what_holds_the_rest() -> None:
    """It was told to evict 5 MB, of 54 that were lacking."""
    room = ToEvict("manual", "x", 250, 100)
    room.show("small", 60)
    assert room.lacks_bytes() == 90
    assert room.lacks_bytes(1) == 0, "of another one nothing is known yet"
    said = "evict some of small (60 B); even all of that is 90 B too little: red (80 B) cannot go: pinned"
    with pytest.raises(errors.ResourceExhaustedError) as refused:
        room.names(0, [("red", 80)])
    assert said in str(refused.value)
    with pytest.raises(errors.ResourceExhaustedError, match=r"small \(60 B\); and up to 1 more$"):
        room.names(1, [("red", 80)])
    room.show("old", 90)
    with pytest.raises(errors.ResourceExhaustedError, match=r"old \(90 B\)$"):
        room.names(0, [("red", 80)])


def test_what_may_not_be_seen_is_counted() -> None:
    room = ToEvict("manual", "x", 150, 100)
    for name in ("a", "secret", "b", "hidden"):
        room.show(name, 60, name in "ab")
    with pytest.raises(errors.ResourceExhaustedError) as refused:
        room.names(3)
    said = "evict some of a (60 B), b (60 B) and 2 that you may not see; and up to 3 more"
    assert str(refused.value).endswith(said)
