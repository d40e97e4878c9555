"""What records have become is framed as TFRecords, cut the same by everybody."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.materializing.elements_as_records import shard_cut
from tfquiver.scanning import tfrecord


@given(st.lists(st.binary(max_size=50), max_size=40), st.integers(20, 200))
def test_parts_joined_are_the_records_in_their_order(payloads: list[bytes], most: int) -> None:
    was, shard_cut.MOST_PART_BYTES = shard_cut.MOST_PART_BYTES, most
    try:
        parts = list(shard_cut.cut(payloads))
        assert parts == list(shard_cut.cut(payloads))
    finally:
        shard_cut.MOST_PART_BYTES = was
    assert b"".join(part.data for part in parts) == b"".join(map(tfrecord.frame, payloads))
    for part in parts:
        assert hashlib.sha256(part.data).digest() == part.hash
        assert part.records == 1 or len(part.data) <= most
    found = [payload for part in parts for payload in shard_cut.payloads(part.data, part.records, "here")]
    assert found == payloads


@pytest.mark.parametrize("cut", [1, 20])
def test_a_shard_that_is_not_what_its_digest_says_is_refused(cut: int) -> None:
    data = tfrecord.frame(b"x" * 30) + tfrecord.frame(b"y")
    with pytest.raises(errors.DataLossError, match="here"):
        shard_cut.payloads(data[:-cut], 2, "here")
    with pytest.raises(errors.DataLossError, match="the digest says 3"):
        shard_cut.payloads(data, 3, "here")


def test_what_no_node_takes_is_named_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_cut, "MOST_ELEMENT_BYTES", 10)
    cutting = shard_cut.cut([b"x" * 10, b"y" * 11])
    with pytest.raises(errors.InvalidArgumentError, match="record 1 becomes 11 bytes"):
        list(cutting)
