"""Digests that were written once must be read, and built again to the same bytes, for as long as version 1 lives."""

from __future__ import annotations

from tests.golden.make_digest import HERE, SMALL_BYTES, digest_of_files, payloads
from tests.support.records import stream
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing.listing import listing_key
from tfquiver.scanning.cutting import CutPolicy


def test_todays_code_reads_the_old_digest() -> None:
    digest = Digest.open(HERE / "small.tfqd")
    digest.verify_ids()
    assert digest.name == "small"
    assert [(file.uri, file.compression, file.generation) for file in digest.files] == [
        ("mem://small.tfrecord", "none", "1"),
        ("mem://small.tfrecord.gz", "gzip", "1"),
    ]
    assert digest.num_records == 240
    assert digest.size_bytes == 2 * len(stream(payloads()))
    plain, packed = digest.file_shards(0), digest.file_shards(1)
    assert len(plain) > 5
    assert digest.hashes[plain.start : plain.stop].tolist() == digest.hashes[packed.start : packed.stop].tolist()
    assert digest.content_root.hex() == "31b23a976fd59dd1a881271afccdbfb616b08cdd497da674bdb4f0127af34a07"
    assert digest.digest_id.hex() == "126452f7ffa61d2514774372c3aada261f686afeb4ca675707ada2429fb6becc"


def test_todays_code_builds_the_same_bytes() -> None:
    assert digest_of_files().to_bytes() == (HERE / "small.tfqd").read_bytes()


def test_files_of_bytes_are_cut_as_ever() -> None:
    """Also by later versions of the library that cuts: what is cached would be cached again."""
    digest = Digest.open(HERE / "bytes.tfqd")
    digest.verify_ids()
    assert (digest.format, digest.num_records, digest.num_shards) == (formats.BYTES, 0, 13)
    assert digest_of_files(SMALL_BYTES, "bytes").to_bytes() == (HERE / "bytes.tfqd").read_bytes()
    files = [FileEntry("gs://b/1", 10, "")]
    assert (
        listing_key(files, CutPolicy(format=formats.BYTES)).hex()
        == "58e075aac97a7d4edb48b515344415c08e06adc578dad75d667b129f8c8cbc98"
    )


def test_the_listing_key_stays() -> None:
    files = [FileEntry("gs://b/2", 20, "7"), FileEntry("gs://b/1", 10, "", "none")]
    assert listing_key(files, CutPolicy()).hex() == "e9d5505036182af8e4f6d9d547373d647beae10edf595f9a9facdc5c0a0333e9"
    assert listing_key(files[::-1], CutPolicy()) == listing_key(files, CutPolicy())
