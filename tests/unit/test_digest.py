from __future__ import annotations

import hashlib
import resource
import struct
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.digests.digest import Digest, FileEntry

Row = tuple[int, int, int]  # file, length, records


def small(name: str = "small", generation: str = "g1") -> Digest:
    files = [FileEntry("file:///a", 100, generation, "none"), FileEntry("gs://b/é", 50, "", "gzip")]
    hashes = [hashlib.sha256(bytes([i])).digest() for i in range(3)]
    return Digest.build(
        name, files, np.frombuffer(b"".join(hashes), np.uint8), [0, 0, 1], [0, 40, 0], [40, 60, 48], [1, 2, 3]
    )


@st.composite
def digests(draw: st.DrawFn) -> Digest:
    names = draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), min_size=1, max_size=5))
    files, index, offsets, lengths, records = [], [], [], [], []
    for number, name in enumerate(names):
        compression = draw(st.sampled_from(["none", "gzip", "zlib"]))
        files.append(FileEntry(f"mem://{name}", draw(st.integers(0, 2**60)), name[:3], compression))
        at = 0
        for length, count in draw(st.lists(st.tuples(st.integers(160, 2**32 - 1), st.integers(1, 10)), max_size=5)):
            index.append(number)
            offsets.append(at)
            lengths.append(length)
            records.append(count)
            at += length
    hashes = np.frombuffer(draw(st.binary(min_size=32 * len(index), max_size=32 * len(index))), np.uint8)
    return Digest.build(
        draw(st.text(st.characters(codec="utf-8"), max_size=20)), files, hashes, index, offsets, lengths, records
    )


@pytest.mark.slow
@given(digests())
def test_round_trip(digest: Digest) -> None:
    data = digest.to_bytes()
    again = Digest.from_bytes(data)
    again.verify_ids()
    assert again.to_bytes() == data
    assert (again.name, again.files) == (digest.name, digest.files)
    assert (again.content_root, again.digest_id) == (digest.content_root, digest.digest_id)
    assert [again.shard(i) for i in range(again.num_shards)] == [digest.shard(i) for i in range(digest.num_shards)]
    assert [i for f in range(len(again.files)) for i in again.file_shards(f)] == list(range(again.num_shards))


def test_open_maps_the_file_and_cannot_be_written_to(tmp_path: Path) -> None:
    path = tmp_path / "small.tfqd"
    small().save(path)
    digest = Digest.open(path)
    digest.verify_ids()
    assert digest.shard(1).file == digest.files[0]
    assert (digest.num_shards, digest.num_records, digest.size_bytes) == (3, 6, 148)
    with pytest.raises(ValueError, match="read-only"):
        digest.lengths[0] = 1
    assert list(tmp_path.iterdir()) == [path]


def test_every_flipped_byte_is_seen() -> None:
    good = small().to_bytes()
    for position in range(len(good)):
        for flip in (0xFF, 0x01):
            damaged = bytearray(good)
            damaged[position] ^= flip
            with pytest.raises(errors.CorruptDigestError, match=r"d\.tfqd: "):
                Digest.from_bytes(bytes(damaged), "d.tfqd")


def test_every_truncation_and_any_addition_is_seen() -> None:
    good = small().to_bytes()
    for length in range(len(good)):
        with pytest.raises(errors.CorruptDigestError):
            Digest.from_bytes(good[:length])
    with pytest.raises(errors.CorruptDigestError, match="bytes where the header says"):
        Digest.from_bytes(good + b"\0")


def test_another_version_says_which_it_is_and_which_is_read() -> None:
    data = bytearray(small().to_bytes())
    data[4:8] = struct.pack("<I", 3)
    data[252 - 4 : 252] = struct.pack("<I", google_crc32c.value(bytes(data[: 252 - 4])))
    with pytest.raises(errors.CorruptDigestError, match="version 3; this tfquiver reads versions 1 and 2"):
        Digest.from_bytes(bytes(data))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1, 0], [0, 0], [16, 16], [1, 1]), "file_index"),
        (([0, 2], [0, 0], [16, 16], [1, 1]), "file_index"),
        (([0, 0], [0, 17], [16, 16], [1, 1]), "does not begin where"),
        (([0, 1], [0, 16], [16, 16], [1, 1]), "does not begin where"),
        (([0, 0], [1, 17], [16, 16], [1, 1]), "does not begin where"),
        (([0, 0], [0, 16], [16, 16], [1, 0]), "no records"),
        (([0, 0], [0, 16], [16, 16], [1, 2]), "more than fit"),
        (([0, 0], [0, 1 << 32], [1 << 32, 16], [1, 1]), "out of range"),
        (([0], [0, 16], [16, 16], [1, 1]), "different lengths"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: tuple[list[int], ...], message: str) -> None:
    files = [FileEntry("a", 32, "", "none"), FileEntry("b", 32, "", "none")]
    with pytest.raises(errors.CorruptDigestError, match=message):
        Digest.build("x", files, bytes_of(2), *columns)


def bytes_of(shards: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.zeros((shards, 32), np.uint8)


def test_a_forged_id_passes_the_checksums_but_not_verify_ids() -> None:
    for name, at in (("content root", 16), ("digest id", 48)):
        data = bytearray(small().to_bytes())
        data[at] ^= 1
        data[252 - 4 : 252] = struct.pack("<I", google_crc32c.value(bytes(data[: 252 - 4])))
        digest = Digest.from_bytes(bytes(data))
        with pytest.raises(errors.CorruptDigestError, match=name):
            digest.verify_ids()


def test_the_content_root_ignores_where_the_copy_lies_and_the_id_does_not() -> None:
    one, other = small("one", "g1"), small("other", "g2")
    assert one.content_root == other.content_root
    assert one.digest_id != other.digest_id
    assert small("one").digest_id == small("two").digest_id


def test_no_such_file_and_no_such_shard(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match=r"nope\.tfqd"):
        Digest.open(tmp_path / "nope.tfqd")
    with pytest.raises(errors.InvalidArgumentError, match="no shard 3: it has 3"):
        small().shard(3)
    (tmp_path / "empty.tfqd").touch()
    with pytest.raises(errors.CorruptDigestError, match=r"empty\.tfqd: not a digest"):
        Digest.open(tmp_path / "empty.tfqd")
    with pytest.raises(errors.InvalidArgumentError, match="is a directory: name a digest file"):
        Digest.open(tmp_path)


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(errors.ResourceExhaustedError, match=r"small\.tfqd: File too large"):
            small().save(tmp_path / "small.tfqd")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(errors.NotFoundError, match=r"no/small\.tfqd"):
        small().save(tmp_path / "no" / "small.tfqd")
