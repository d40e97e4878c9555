"""Parts that are asked for one after the other cost one making of their row, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tfquiver import errors
from tfquiver.materializing.elements_as_records.shard_cut import MadeShard
from tfquiver.materializing.remembered_rows import MOST_BYTES, MOST_STANDING, RememberedRows

PARTS = 40
PART_BYTES = MOST_BYTES // 8
DATA = bytes(PART_BYTES)


class Rows:
    """How often each part of each row was made."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.made: list[tuple[int, int]] = []
        self.trouble: errors.TfquiverError | None = None

    def __call__(self, row: int) -> Iterator[MadeShard]:
        self.begun.append(row)
        for part in range(PARTS):
            if self.trouble and part == 3:
                raise self.trouble
            self.made.append((row, part))
            yield MadeShard(bytes([row, part]), DATA, 1)


def asked(rows: RememberedRows, row: int, part: int) -> None:
    made = rows.part(row, part)
    assert made is not None
    assert made.hash == bytes([row, part])


def test_a_row_goes_on_where_it_was_left_and_no_part_is_made_before_it_is_asked_for() -> None:
    makes = Rows()
    rows = RememberedRows(makes)
    for part in range(PARTS):
        for row in (5, 6):
            asked(rows, row, part)
            assert (row, part + 1) not in makes.made
            assert rows.kept_bytes <= MOST_BYTES
    assert makes.begun == [5, 6]
    assert len(makes.made) == 2 * PARTS
    assert rows.part(5, PARTS) is None
    assert rows.part(5, PARTS + 3) is None, "and it was made anew to find out"


def test_what_was_gone_by_is_remembered_and_what_is_not_any_more_is_made_anew() -> None:
    makes = Rows()
    rows = RememberedRows(makes)
    for part in (7, 6, 5, 7):
        asked(rows, 1, part)
    assert makes.begun == [1]
    asked(rows, 1, PARTS - 1)
    asked(rows, 1, 0)
    assert makes.begun == [1, 1]
    for row in range(2, 2 + MOST_STANDING):
        asked(rows, row, 0)
    asked(rows, 1, 1)
    assert makes.begun.count(1) == 3, "its place was another's"


def test_what_failed_begins_anew() -> None:
    makes = Rows()
    makes.trouble = errors.UnavailableError("the node is away")
    rows = RememberedRows(makes)
    with pytest.raises(errors.UnavailableError):
        rows.part(1, 5)
    makes.trouble = None
    asked(rows, 1, 5)
    assert makes.begun == [1, 1]


def test_readers_of_one_row_who_are_far_apart_do_not_make_each_other_begin_anew() -> None:
    makes = Rows()
    rows = RememberedRows(makes)
    for part in range(PARTS + 10):
        for place in (part, part - 10):
            if 0 <= place < PARTS:
                asked(rows, 1, place)
    assert makes.begun == [1, 1]
    assert len(makes.made) <= 2 * PARTS
