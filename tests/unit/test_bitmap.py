"""Bitmaps of acked shards, and what comes from the network in place of one."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.coordinator.sessions.bitmap import Bitmap


@given(st.integers(1, 100).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1)))))
def test_it_is_a_set_of_numbers(case: tuple[int, list[int]]) -> None:
    size, numbers = case
    bitmap, model = Bitmap(size), set[int]()
    for number in numbers:
        assert bitmap.add(number) == (number not in model)
        model.add(number)
    again = Bitmap.from_compressed(bitmap.compressed(), size)
    for one in (bitmap, again):
        assert [number for number in range(size) if number in one] == sorted(model)
        assert one.as_array().nonzero()[0].tolist() == sorted(model)
        assert one.count == len(model)
        assert len(one) == size


@given(st.lists(st.lists(st.integers(0, 40), max_size=20), max_size=5), st.integers(0, 4))
def test_several_at_a_time_are_as_one_after_the_other(groups: list[list[int]], still_before: int) -> None:
    bitmap, each, still = Bitmap(41), Bitmap(41), Bitmap(41)
    was: list[int] = []
    for number, group in enumerate(groups):
        if number == still_before:
            still, was = bitmap.still(), bitmap.as_array().nonzero()[0].tolist()
        assert bitmap.lacking(group) == [one for one in group if one not in each]
        assert bitmap.add_all(group) == [one for one in group if each.add(one)]
        assert (bitmap.as_array() == each.as_array()).all() and bitmap.count == each.count
    assert still.as_array().nonzero()[0].tolist() == was, "a still does not change"


def test_nothing_is_no_bytes() -> None:
    assert Bitmap(10).compressed() == b""
    assert Bitmap.from_compressed(b"", 10).count == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"garbage", "not zlib data"),
        (zlib.compress(b"\x01"), "not 2 bytes"),
        (zlib.compress(b"\x01\x00\x00"), "not 2 bytes"),
        (zlib.compress(b"\x01\x00") + b"more", "not 2 bytes"),
        (zlib.compress(b"\x01\x00")[:-3], "not 2 bytes"),
        (zlib.compress(b"\x00\x04"), "beyond the last of 10"),
    ],
)
def test_what_is_no_bitmap_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"done_bitmap: .*{message}"):
        Bitmap.from_compressed(data, 10)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(bytes(64 << 20), 9)
    with pytest.raises(errors.InvalidArgumentError, match="not 2 bytes"):
        Bitmap.from_compressed(bomb, 10)
