"""Headers of Parquet's pages, of files that somebody else wrote."""

from __future__ import annotations

import io

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
    assert all(isinstance(number, int) for number in fields)
