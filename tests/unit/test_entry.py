from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.node.disk import entry

CRC = st.integers(0, 2**32 - 1)


@st.composite
def headers(draw: st.DrawFn) -> entry.Header:
    raw_length = draw(st.integers(1, entry.MAX_BODY_BYTES))
    kind = draw(st.sampled_from([entry.RAW, entry.ZSTD]))
    stored_length = raw_length if kind == entry.RAW else draw(st.integers(1, raw_length))
    return entry.Header(
        kind, raw_length, stored_length, draw(CRC), draw(CRC), draw(st.binary(min_size=32, max_size=32))
    )


@given(headers())
def test_a_header_comes_back_as_it_went(header: entry.Header) -> None:
    page = entry.encode(header)
    assert len(page) == entry.HEADER_BYTES
    assert entry.decode(page, "x") == header


@given(headers(), st.integers(0, entry.HEADER_BYTES - 1), st.integers(1, 255))
def test_no_byte_of_the_page_can_change_unseen(header: entry.Header, at: int, flip: int) -> None:
    page = bytearray(entry.encode(header))
    page[at] ^= flip
    with pytest.raises(errors.DataLossError, match="objects/the-entry"):
        entry.decode(bytes(page), "objects/the-entry")


@given(st.binary(max_size=5000))
def test_garbage_is_damage(data: bytes) -> None:
    with pytest.raises(errors.DataLossError):
        entry.decode(data, "x")


@pytest.mark.parametrize(
    "lengths", [(2, 5, 5), (0, 5, 4), (0, 0, 0), (1, 5, 6), (1, 5, 0), (1, entry.MAX_BODY_BYTES + 1, 1)]
)
def test_lengths_that_cannot_be_right_are_neither_written_nor_allocated_for(lengths: tuple[int, int, int]) -> None:
    assert entry.check_lengths(*lengths)
    with pytest.raises(ValueError, match=r"length|codec"):
        entry.encode(entry.Header(*lengths, 0, 0, bytes(32)))


def test_the_ledger_counts_whole_pages() -> None:
    assert entry.Header(entry.RAW, 1, 1, 0, 0, bytes(32)).disk_bytes == 2 * 4096
    assert entry.Header(entry.RAW, 4096, 4096, 0, 0, bytes(32)).disk_bytes == 2 * 4096
