from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import MemoryStore, stream
from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.scanning import streams

PACK = {"gzip": gzip.compress, "zlib": zlib.compress}


def inflate(data: bytes, compression: str, chunk_bytes: int = 1000) -> bytes:
    chunks = (data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes))
    return b"".join(streams.decompress(chunks, compression, "f"))


@given(st.sampled_from(["gzip", "zlib"]), st.lists(st.binary(max_size=500), min_size=1, max_size=3), st.integers(1, 99))
def test_streams_come_out_as_they_went_in(compression: str, members: list[bytes], chunk_bytes: int) -> None:
    packed = b"".join(PACK[compression](member) for member in members)
    assert inflate(packed, compression, chunk_bytes) == b"".join(members)


@given(st.sampled_from(["gzip", "zlib"]), st.binary(min_size=1, max_size=300), st.data())
def test_a_stream_that_is_cut_off_is_told(compression: str, content: bytes, data: st.DataObject) -> None:
    packed = PACK[compression](content)
    end = data.draw(st.integers(1, len(packed) - 1))
    with pytest.raises(errors.DataLossError, match=f"f: truncated {compression} stream: it ends at stored byte {end}"):
        inflate(packed[:end], compression)


@pytest.mark.parametrize("compression", PACK)
def test_damage_names_the_file(compression: str) -> None:
    packed = bytearray(PACK[compression](bytes(range(256)) * 20))
    packed[-3] ^= 1  # in the checksum
    with pytest.raises(errors.DataLossError, match=f"f: damaged {compression} stream near stored byte"):
        inflate(bytes(packed), compression)


@given(st.lists(st.tuples(st.binary(max_size=50), st.integers(0, 3000)), min_size=1, max_size=3), st.integers(1, 99))
def test_zeros_between_and_after_gzip_members_are_padding(members: list[tuple[bytes, int]], chunk_bytes: int) -> None:
    packed = b"".join(gzip.compress(data) + bytes(zeros) for data, zeros in members)
    assert inflate(packed, "gzip", chunk_bytes) == b"".join(data for data, _ in members)


def test_garbage_after_the_stream_is_told() -> None:
    with pytest.raises(errors.DataLossError, match="f: damaged gzip"):
        inflate(gzip.compress(b"x") + b"garbage", "gzip")


def test_a_bomb_is_inflated_chunk_by_chunk() -> None:
    packed = gzip.compress(bytes(64 << 20))
    tracemalloc.start()
    try:
        total = sum(map(len, streams.decompress([packed], "gzip", "f")))
        assert tracemalloc.get_traced_memory()[1] < 4 * streams.CHUNK_BYTES
    finally:
        tracemalloc.stop()
    assert total == 64 << 20


def test_compression_is_told_from_the_first_bytes() -> None:
    data = stream([b"x" * 50] * 5)
    assert streams.compression_of(data[:12]) == "none"
    assert streams.compression_of(gzip.compress(data)[:12]) == "gzip"
    for level in range(10):
        assert streams.compression_of(zlib.compress(data, level)[:12]) == "zlib"
    assert streams.compression_of(b"") == "none"
    assert streams.compression_of(b"damaged data") == "none"


def test_a_record_whose_length_looks_like_a_gzip_magic_is_still_a_record() -> None:
    data = stream([bytes(0x8B1F)])
    assert data[:2] == b"\x1f\x8b"
    assert streams.compression_of(data[:12]) == "none"


def test_remote_files_are_read_ahead_in_order() -> None:
    store = MemoryStore({"mem://f": bytes(range(256)) * (3 * streams.CHUNK_BYTES // 256) + b"end"})
    store.remote = True
    entry = FileEntry("mem://f", len(store.objects["mem://f"]), "1", "none")
    assert b"".join(streams.stored_chunks(entry, store)) == store.objects["mem://f"]
    assert b"".join(streams.stored_chunks(entry, store, 1000)) == store.objects["mem://f"][1000:]
    assert [at for _, at, _ in store.reads[:4]] == [0, 1 << 22, 2 << 22, 3 << 22]


def test_a_changed_file_is_told_through_the_read_ahead() -> None:
    store = MemoryStore({"mem://f": b"x" * 10})
    store.remote = True
    with pytest.raises(errors.StaleDigestError, match="mem://f"):
        list(streams.stored_chunks(FileEntry("mem://f", 10, "other", "none"), store))
