from __future__ import annotations

import gzip

import pytest

from tests.support.records import SMALL_SHARDS, MemoryStore, stream
from tfquiver import digest_build, errors, listing
from tfquiver.digest import Digest
from tfquiver.shard_bytes import read_file_shards, read_shard

PAYLOADS = [bytes([i % 256]) * (i % 100) for i in range(400)]
DATA = stream(PAYLOADS)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore({"mem://a": DATA, "mem://b": gzip.compress(DATA)})


@pytest.fixture
def digest(store: MemoryStore) -> Digest:
    return digest_build.build(listing.expand("mem://*", lambda _: store), SMALL_SHARDS, store_for=lambda _: store)


def test_one_shard_is_one_read(store: MemoryStore, digest: Digest) -> None:
    store.reads.clear()
    shard = digest.shard(3)
    assert read_shard(shard, store) == DATA[shard.offset : shard.offset + shard.length_bytes]
    assert store.reads == [("mem://a", shard.offset, shard.length_bytes)]


@pytest.mark.parametrize("file_index", [0, 1])
def test_a_files_shards_in_one_pass(store: MemoryStore, digest: Digest, file_index: int) -> None:
    found = list(read_file_shards(digest, file_index, store))
    assert [shard.index for shard, _ in found] == list(digest.file_shards(file_index))
    assert b"".join(data for _, data in found) == DATA


def test_other_bytes_are_never_returned(store: MemoryStore, digest: Digest) -> None:
    """The store may be one that cannot tell its objects' versions apart."""
    store.objects["mem://a"] = stream(PAYLOADS[::-1])
    with pytest.raises(errors.StaleDigestError, match=r"mem://a: the .* bytes at offset .* are not those"):
        read_shard(digest.shard(3), store)
    for other in (gzip.compress(stream(PAYLOADS[::-1])), gzip.compress(DATA[:-50]), gzip.compress(DATA)[:-40]):
        store.objects["mem://b"] = other
        with pytest.raises(errors.StaleDigestError, match="mem://b: "):
            list(read_file_shards(digest, 1, store))


def test_a_compressed_file_has_no_range(store: MemoryStore, digest: Digest) -> None:
    with pytest.raises(ValueError, match="read_file_shards"):
        read_shard(digest.shard(digest.file_shards(1).start), store)
