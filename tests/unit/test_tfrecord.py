from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import length_header, stream
from tfquiver import errors
from tfquiver.scanning import tfrecord


def scan_all(chunks: list[bytes], **known: int) -> tuple[bytes, list[tuple[int, int]]]:
    """The blocks joined, and (end in the stream, CRC) of every record."""
    data, records = b"", []
    for block in tfrecord.scan(chunks, name="f", **known):
        records += [(len(data) + end, crc) for end, crc in zip(block.ends, block.crcs, strict=True)]
        data += block.data
    return data, records


@given(st.lists(st.binary(max_size=60), max_size=30), st.lists(st.integers(0, 200), max_size=20))
def test_any_chunking_finds_the_same_records(payloads: list[bytes], cuts: list[int]) -> None:
    whole = stream(payloads)
    edges = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    chunks = [whole[start:end] for start, end in pairwise(edges)]
    data, records = scan_all(chunks, stream_bytes=len(whole))
    assert data == whole
    ends, end = [], 0
    for payload in payloads:
        end += len(payload) + tfrecord.FRAMING_BYTES
        ends.append((end, google_crc32c.value(payload)))
    assert records == ends


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=5), st.data())
def test_no_flipped_bit_goes_unseen(payloads: list[bytes], data: st.DataObject) -> None:
    damaged = bytearray(stream(payloads))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(errors.DataLossError, match=r"f: .* record at offset"):
        scan_all([bytes(damaged)])


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=5), st.data())
def test_every_truncation_inside_a_record_is_told(payloads: list[bytes], data: st.DataObject) -> None:
    whole = stream(payloads)
    last_at = len(stream(payloads[:-1]))
    end = data.draw(st.integers(last_at + 1, len(whole) - 1))
    with pytest.raises(errors.DataLossError, match=f"f: truncated: the record at offset {last_at} "):
        scan_all([whole[:end]])


def test_a_stream_shorter_than_listed_is_told_even_between_records() -> None:
    whole = stream([b"a", b"b"])
    with pytest.raises(errors.DataLossError, match="17 bytes came where 34 were listed"):
        scan_all([whole[:17]], stream_bytes=34)


def test_bad_length_crc_names_file_and_offset() -> None:
    data = bytearray(stream([b"first", b"second"]))
    data[21 + 9] ^= 1
    with pytest.raises(errors.DataLossError, match=r"f: damaged length CRC of the record at offset 21$"):
        scan_all([bytes(data)])


@pytest.mark.parametrize("chunk_bytes", [1000, 7])
def test_bad_data_crc_names_file_and_offset(chunk_bytes: int) -> None:
    data = bytearray(stream([b"first", b"second" * 10]))
    data[21 + 14] ^= 1
    with pytest.raises(errors.DataLossError, match=r"f: damaged data CRC of the record at offset 21$"):
        scan_all([bytes(data[at : at + chunk_bytes]) for at in range(0, len(data), chunk_bytes)])


def test_offsets_in_messages_count_from_where_the_scan_starts() -> None:
    with pytest.raises(errors.DataLossError, match="offset 1000"):
        list(tfrecord.scan([b"x" * 50], name="f", start=1000))


def test_an_empty_stream_has_no_records() -> None:
    assert scan_all([]) == (b"", [])
    assert scan_all([b""], stream_bytes=0) == (b"", [])


def test_zero_length_records() -> None:
    assert scan_all([stream([b"", b"", b""])]) == (stream([b""] * 3), [(16, 0), (32, 0), (48, 0)])


@pytest.mark.parametrize("length", [1 << 60, (1 << 64) - 1, tfrecord.RECORD_LIMIT_BYTES + 1])
@pytest.mark.parametrize("known", [{}, {"stream_bytes": 40}])
def test_an_absurd_length_fails_at_once_and_allocates_nothing(length: int, known: dict[str, int]) -> None:
    data = length_header(length) + b"x" * 28
    tracemalloc.start()
    try:
        with pytest.raises(errors.DataLossError, match=f"f: .*record at offset 0 claims {length} bytes"):
            scan_all([data], **known)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_huge_record_is_scanned_chunk_by_chunk() -> None:
    payload_bytes, piece = 300 << 20, bytes(1 << 20)
    crc = 0
    for _ in range(300):
        crc = google_crc32c.extend(crc, piece)

    def chunks():  # type: ignore[no-untyped-def]
        yield length_header(payload_bytes)
        for _ in range(300):
            yield piece
        yield struct.pack("<I", tfrecord.masked(crc))

    tracemalloc.start()
    try:
        blocks = [(len(block.data), block.crcs) for block in tfrecord.scan(chunks(), name="f")]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert sum(length for length, _ in blocks) == payload_bytes + tfrecord.FRAMING_BYTES
    assert [found for _, crcs in blocks for found in crcs] == [crc]


def test_what_tensorflow_writes_begins_with_a_record() -> None:
    # From tf.io.TFRecordWriter: one record, b"abc".
    written = bytes.fromhex("0300000000000000b099490e6162636e57f121")
    assert tfrecord.frame(b"abc") == written
    assert tfrecord.starts_with_record(written)
    assert not tfrecord.starts_with_record(written[:11])
    assert not tfrecord.starts_with_record(b"\x1f\x8b" + written)
