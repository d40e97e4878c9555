"""Files of any kind, cut by content."""

from __future__ import annotations

import hashlib
import random

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import MemoryStore
from tfquiver import errors
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing import listing
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.scanning import digest_build
from tfquiver.scanning.bytes_cut import cut_bytes
from tfquiver.scanning.cut_shard import CutShard
from tfquiver.scanning.cutting import CutPolicy

SMALL = CutPolicy(256, 1024, 4096, formats.BYTES)
noise = st.builds(lambda seed, size: random.Random(seed).randbytes(size), st.integers(0, 99), st.integers(0, 40_000))


def cut(data: bytes, sizes: list[int], start: int = 0) -> list[CutShard]:
    chunks, at = [], start
    for size in sizes:
        chunks.append(data[at : at + size])
        at += size
    return list(cut_bytes([*chunks, data[at:]], SMALL, name="f", stream_bytes=len(data), start=start))


@given(noise, st.lists(st.integers(0, 9000), max_size=8), st.data())
def test_shards_are_the_file_however_it_comes(content: bytes, sizes: list[int], data: st.DataObject) -> None:
    shards = cut(content, sizes)
    assert b"".join(shard.data for shard in shards) == content
    assert shards == cut(content, []), "not where the chunks end"
    for shard in shards:
        assert shard.hash == hashlib.sha256(shard.data).digest()
        assert shard.crc32c == google_crc32c.value(shard.data)
        assert content[shard.offset : shard.offset + shard.length_bytes] == shard.data
        assert shard is shards[-1] or SMALL.min_bytes <= shard.length_bytes <= SMALL.max_bytes
        assert shard.length_bytes <= SMALL.max_bytes
    if shards:  # as after a scan that was broken off
        first = data.draw(st.integers(0, len(shards) - 1))
        assert cut(content, sizes, shards[first].offset) == shards[first:]


@given(st.integers(0, 99), st.integers(0, 200_000), st.binary(max_size=300))
def test_a_change_costs_a_few_shards(seed: int, at: int, inserted: bytes) -> None:
    content = random.Random(seed).randbytes(200_000)
    before = {shard.hash for shard in cut(content, [])}
    after = cut(content[:at] + inserted + content[at:], [])
    assert sum(shard.hash not in before for shard in after) <= 24, "of 160; each one more is half as likely"


def test_a_stream_of_another_length_is_named() -> None:
    with pytest.raises(errors.DataLossError, match=r"gs://b/f: 3 bytes came where 4 were listed"):
        list(cut_bytes([b"abc"], SMALL, name="gs://b/f", stream_bytes=4))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (64, 8 << 20, 8 << 20), (64, 256, 1 << 40)])
def test_sizes_that_fastcdc_does_not_take(sizes: tuple[int, int, int]) -> None:
    CutPolicy(*sizes)
    with pytest.raises(errors.InvalidArgumentError, match="_bytes="):
        CutPolicy(*sizes, formats.BYTES)


def built(format: str) -> Digest:
    store = MemoryStore(
        {"mem://a": b"\x1f\x8b" + bytes(9000), "mem://b": b"", "mem://c": random.Random(1).randbytes(9000)}
    )
    files = listing.expand("mem://*", lambda _: store)
    return digest_build.build(files, CutPolicy(256, 1024, 4096, format), store_for=lambda _: store)


def test_a_digest_of_bytes() -> None:
    digest = built(formats.BYTES)
    assert digest.format == formats.BYTES
    assert (digest.num_records, digest.size_bytes) == (0, 18_002)
    assert {file.compression for file in digest.files} == {"none"}
    again = Digest.from_bytes(digest.to_bytes())
    assert (again.format, again.digest_id) == (formats.BYTES, digest.digest_id)
    again.verify_ids()
    with pytest.raises(errors.DataLossError):
        built(formats.TFRECORD)


def test_formats_do_not_pass_for_one_another() -> None:
    digest = built(formats.BYTES)
    hashes, index, offsets, lengths = digest.hashes, digest.file_index, digest.offsets, digest.lengths
    other = Digest.build("", digest.files, hashes, index, offsets, lengths, [1] * len(lengths))
    assert other.content_root == digest.content_root
    assert other.digest_id != digest.digest_id
    terms = {format: ListingTerms(CutPolicy(format=format)) for format in formats.FORMATS}
    files = [FileEntry("gs://b/1", 10, "7")]
    assert terms[formats.BYTES].key(files) != terms[formats.TFRECORD].key(files)
    for format, its in terms.items():
        assert ListingTerms.of(its.message()) == its
        assert (its.key_of(digest) == its.key(digest.files)) == (format == formats.BYTES)
    with pytest.raises(errors.CorruptDigestError, match="has records"):
        Digest.build("", digest.files, hashes, index, offsets, lengths, [1] * len(lengths), formats.BYTES)
    with pytest.raises(errors.CorruptDigestError, match="not all of its bytes"):
        Digest.build(
            "",
            digest.files,
            hashes[:-1],
            index[:-1],
            offsets[:-1],
            lengths[:-1],
            [0] * (len(lengths) - 1),
            formats.BYTES,
        )
