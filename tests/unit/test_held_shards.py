"""HELD frames: bounded before they are kept, and by the data set once it is known."""

from __future__ import annotations

import tracemalloc

import pytest

from tfquiver import errors
from tfquiver.messages_and_binary_formats.reader_frames import MAX_INDEXES
from tfquiver.service.node.reader_sessions.held_shards import MAX_HELD, HeldShards


def held(*frames: range) -> HeldShards:
    made = HeldShards()
    for shards in frames:
        made.add(shards)
    return made


def test_what_is_held_is_taken_once() -> None:
    holds = held(range(3), range(7, 9))
    assert list(holds.take(of_shards=9)) == [0, 1, 2, 7, 8]
    assert list(holds.take(of_shards=9)) == []


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ([range(3), range(3), range(3)], "more shards than the data set's 8"),
        ([range(7, 9)], "shard 8: the data set has 8"),
        ([range((1 << 32) - 1, 1 << 32)], "shard 4294967295"),
    ],
)
def test_no_more_than_the_data_set_has(frames: list[range], said: str) -> None:
    with pytest.raises(errors.ProtocolError, match=said):
        held(*frames).take(of_shards=8)


@pytest.mark.slow
def test_who_never_opens_does_not_fill_the_memory() -> None:
    holds, frame = HeldShards(), tuple(range(1 << 20, (1 << 20) + MAX_INDEXES))
    tracemalloc.start()
    try:
        for _ in range(MAX_HELD // MAX_INDEXES):
            holds.add(tuple(number + 1 for number in frame))
        for _ in range(100):
            with pytest.raises(errors.ProtocolError, match=f"more than {MAX_HELD} shards"):
                holds.add(frame)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 5 * MAX_HELD, "numbers of their own took forty bytes each"
