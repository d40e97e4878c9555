"""Headers of Parquet's pages, of files that somebody else wrote."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.packing.parquet_pages import Page, bytes_of_rows, page_header

LIST_OF_ONE_LIST = b"\x19"


def test_lists_in_lists_end_where_a_header_ends() -> None:
    data = b"\x19" + LIST_OF_ONE_LIST * 100_000
    with pytest.raises(errors.DataLossError, match="damaged at byte 0: that is no page's header"):
        page_header("x.parquet", io.BytesIO(data), 0)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_header_or_damage(data: bytes) -> None:
    try:
        fields, size_bytes = page_header("x.parquet", io.BytesIO(data), 0)
    except errors.DataLossError:
        return
    assert 0 < size_bytes <= len(data)
    assert_of_a_header(fields)


def assert_of_a_header(fields: dict[int, Any]) -> None:
    for number, value in fields.items():
        assert -1 << 15 <= number < 1 << 15
        if isinstance(value, dict):
            assert_of_a_header(value)
        else:
            assert type(value) is int
            assert -1 << 31 <= value < 1 << 31


I32_OF_5, SAME_FIELD = b"\x15\x0a", b"\x02"  # field 1; behind a kind: its number follows in full


@pytest.mark.parametrize(
    ("kind", "content"),
    [(1, b""), (2, b""), (3, b"\x07"), (4, b"\x0e"), (6, b"\x0e"), (7, bytes(8)), (8, b"\x02ab"), (9, b"\x25\x02\x02")],
    ids=["true", "false", "byte", "i16", "i64", "double", "bytes", "list"],
)
def test_a_field_of_another_kind_is_passed_over_as_readers_do(kind: int, content: bytes) -> None:
    data = I32_OF_5 + bytes([kind]) + SAME_FIELD + content + b"\0"
    assert page_header("x.parquet", io.BytesIO(data), 0) == ({1: 5}, len(data))


@pytest.mark.parametrize(
    "data",
    [b"\x15\x8a\x80\x80\x80\x10\0", b"\x05\x82\x80\x08\x0a\0"],
    ids=["value of 33 bits", "number of 17 bits"],
)
def test_numbers_that_readers_would_cut_are_damage(data: bytes) -> None:
    with pytest.raises(errors.DataLossError, match="damaged at byte 0"):
        page_header("x.parquet", io.BytesIO(data), 0)


class Counted(list[Page]):
    """How often a page is looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)

    def __iter__(self) -> Iterator[Page]:
        for page in super().__iter__():
            self.looks += 1
            yield page


def page(values: int, each_bytes: int, share: int = 256) -> Page:
    """Of which so many 256ths are of values at most."""
    every = max(each_bytes, values * each_bytes * share // 256)
    return Page(values, every, each_bytes, every, False)


def one_by_one(pages: list[Page], rows: int) -> int:
    """A window that begins with the last value of each page in turn."""
    most = 0
    for first in range(len(pages)):
        total, left = 0, rows
        for at in range(first, len(pages)):
            total += min(pages[at].all_bytes, left * pages[at].each_bytes)
            left -= pages[at].values if at > first else 1
            if left <= 0:
                break
        most = max(most, total)
    return most


@given(
    st.lists(st.builds(page, st.integers(1, 300), st.integers(0, 1 << 32), st.integers(1, 256)), max_size=30),
    st.integers(1, 256),
)
def test_the_largest_rows_are_found_wherever_they_begin(pages: list[Page], rows: int) -> None:
    assert bytes_of_rows(pages, rows) == one_by_one(pages, rows)


def test_pages_of_one_value_are_looked_at_once_each() -> None:
    """Of the 65,536 pages that a column may have each was looked at 256 times, for seconds."""
    pages = Counted(page(1, 100) for _ in range(10_000))
    assert bytes_of_rows(pages, 256) == 25_600
    assert pages.looks <= 4 * len(pages)
