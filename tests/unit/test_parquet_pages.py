"""Headers of Parquet's pages, of files that somebody else wrote."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.packing.parquet_pages import page_header

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
