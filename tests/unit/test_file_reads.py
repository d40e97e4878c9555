"""Which shards a read takes, and what is fetched ahead of it."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections import Counter

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.glob_patterns_and_file_trees.tree import FileTree
from tfquiver.mounting.checked_shard import BLOCK_BYTES, BlockSums, CheckedShard, block_sums
from tfquiver.mounting.read_plan import ReadPlan
from tfquiver.mounting.reading_ahead.next_names import cached_files, lines
from tfquiver.mounting.reading_ahead.read_ahead import LATELY_READS, MOST_STREAMS, ReadAhead

files_of_shards = st.lists(st.lists(st.integers(16, 60), max_size=4), min_size=1, max_size=4)


def digest_of(files: list[list[int]]) -> tuple[Digest, list[bytes]]:
    content, hashes, index, offsets, lengths = [], [], [], [], []
    for number, of_file in enumerate(files):
        whole = b""
        for shard, length in enumerate(of_file):
            data = bytes([(7 * number + 3 * shard + at) % 256 for at in range(length)])
            hashes.append(list(hashlib.sha256(data).digest()))
            index.append(number)
            offsets.append(len(whole))
            lengths.append(length)
            whole += data
        content.append(whole)
    entries = [FileEntry(f"s3://b/{at}", len(whole), "1", "none") for at, whole in enumerate(content)]
    return Digest.build("d", entries, hashes, index, offsets, lengths, [1] * len(lengths)), content


@given(files_of_shards, st.data())
def test_pieces_are_the_range(files: list[list[int]], data: st.DataObject) -> None:
    digest, content = digest_of(files)
    plan = ReadPlan(digest)
    number = data.draw(st.integers(0, len(files) - 1))
    whole = content[number]
    offset, length = data.draw(st.integers(0, len(whole) + 20)), data.draw(st.integers(0, 200))
    read = b""
    for piece in plan.pieces(number, offset, length):
        shard = digest.shard(piece.shard)
        assert shard.file_index == number
        assert piece.length_bytes > 0
        assert piece.offset + piece.length_bytes <= shard.length_bytes
        begin = shard.offset + piece.offset
        assert begin == offset + len(read), "in order, without gaps"
        read += whole[begin : begin + piece.length_bytes]
    assert read == whole[offset : offset + length]
    assert plan.size_bytes(number) == len(whole)
    assert plan.shards(number) == digest.file_shards(number)


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 17), st.integers(1, 200))
def test_a_sequential_reader_is_ahead_and_never_too_far(most: int, length: int, reads: int) -> None:
    ahead, fetched = ReadAhead(most, lambda: sys.maxsize), 0
    for number in range(reads):
        at = number * length
        wanted = ahead.read(at, length)
        if wanted:
            assert wanted.start >= max(fetched, at + length), "nothing twice, nothing behind"
            assert wanted.stop <= at + length + most
            fetched = wanted.stop
    if reads > 1:
        assert fetched >= min((reads - 1) * length, length) + length


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=200, unique=True))
def test_reads_that_are_far_apart_fetch_nothing(places: list[int]) -> None:
    ahead = ReadAhead(32 << 20, lambda: sys.maxsize)
    for place in places:
        assert not ahead.read(place * (4 << 20), 65536)


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 20), st.integers(0, 1 << 22))
def test_who_begins_a_file_is_ahead_of_it_at_once_and_never_beyond_it(length: int, most: int, left: int) -> None:
    ahead = ReadAhead(most, lambda: sys.maxsize)
    wanted = ahead.read(1 << 30, length, length + left)
    fetched = (1 << 30) + length + min(4 * length, most, left)
    assert len(wanted) == fetched - (1 << 30) - length
    assert not wanted or wanted.stop == fetched
    after = ahead.read((1 << 30) + length, length)
    assert not after or after.start >= fetched, "nothing twice"


@given(files_of_shards, st.data())
def test_what_is_cached_whole_is_named_first(files: list[list[int]], data: st.DataObject) -> None:
    digest, _ = digest_of(files)
    plan, tree = ReadPlan(digest), FileTree(digest.files)
    bits = data.draw(st.lists(st.booleans(), min_size=digest.num_shards, max_size=digest.num_shards))
    cached = cached_files(plan, np.packbits(np.array(bits, bool), bitorder="little").tobytes(), len(files))
    assert cached.tolist() == [all(bits[shard] for shard in plan.shards(number)) for number in range(len(files))]
    named = lines(tree, cached, data.draw(st.randoms())).decode().splitlines()
    assert sorted(named) == sorted(str(number) for number in range(len(files)))
    assert [cached[int(name)] for name in named] == sorted(cached, reverse=True)


@pytest.mark.parametrize(("end", "left_out"), [("\n", "a\nb"), ("\0", "")])
def test_a_name_with_a_newline_stands_where_names_end_otherwise(end: str, left_out: str) -> None:
    names = ["a\nb", "a", "b"]
    tree = FileTree([FileEntry(f"file:///d/{name}", 1, "1", "none") for name in names])
    told = lines(tree, np.zeros(3, np.bool_), random.Random(1), end).decode()
    assert set(told.split(end)) - {""} == set(names) - {left_out}


def test_streams_do_not_disturb_one_another() -> None:
    ahead = ReadAhead(1 << 20, lambda: sys.maxsize)
    far = [ahead.read(stream << 30, 1000) for stream in range(MOST_STREAMS)]
    assert not any(far)
    for step in range(1, 4):
        for stream in range(MOST_STREAMS):
            assert ahead.read((stream << 30) + 1000 * step, 1000)


def test_one_stream_too_many_forgets_the_one_that_read_longest_ago() -> None:
    ahead = ReadAhead(1 << 20, lambda: sys.maxsize)
    for stream in range(MOST_STREAMS + 1):
        ahead.read(stream << 30, 1000)
    assert ahead.read((5 << 30) + 1000, 1000)
    assert not ahead.read(1000, 1000)


def test_those_who_read_now_share_the_room() -> None:
    mib = 1 << 20
    ahead = ReadAhead(64 * mib, lambda: 128 * mib)

    def read_on(streams: range, steps: range) -> int:
        furthest = 0
        for step in steps:
            for stream in streams:
                at = (stream << 30) + step * mib // 2
                if wanted := ahead.read(at, mib // 2):
                    furthest = max(furthest, wanted.stop - at - mib // 2)
        return furthest

    assert read_on(range(8), range(200)) < 17 * mib
    assert ahead.under_way_bytes == 64 * mib, "half of each one's, of all"
    for far in range(100):
        ahead.read((1000 + far) << 30, mib)
    assert read_on(range(8), range(200, 300)) == 16 * mib, "who reads here and there takes no share"
    assert read_on(range(1), range(300, 900)) == 64 * mib, "nor does who has stopped"
    assert ahead.under_way_bytes == 32 * mib


class Readers:
    """Who reads where, and what was said to be fetched ahead of each and is not read yet. Each has a GiB of its own."""

    def __init__(self, ahead: ReadAhead) -> None:
        self._ahead, self._reads = ahead, 0
        self.at, self.told, self._last = Counter[int](), dict[int, int](), dict[int, int]()

    def read(self, reader: int, length_bytes: int, begun_bytes: int = 0) -> None:
        self._reads += 1
        if self._reads - self._last.get(reader, 0) > LATELY_READS:
            self.told.pop(reader, None)
        wanted = self._ahead.read((reader << 30) + self.at[reader], length_bytes, begun_bytes)
        self.at[reader] += length_bytes
        self._last[reader] = self._reads
        if wanted:
            begin, end = wanted.start - (reader << 30), wanted.stop - (reader << 30)
            assert begin == max(self.told.get(reader, 0), self.at[reader]), "nothing twice, nothing left out"
            self.told[reader] = end

    def ahead_bytes(self, reader: int) -> int:
        return max(0, self.told.get(reader, 0) - self.at[reader])

    @property
    def together_bytes(self) -> int:
        return sum(
            self.ahead_bytes(reader) for reader, last in self._last.items() if self._reads - last <= LATELY_READS
        )


_KIB = 1 << 10
a_few_reads = st.tuples(st.integers(0, 60), st.sampled_from([4, 64, 512, 3000]), st.integers(1, 60), st.booleans())


@given(st.integers(0, 1 << 18), st.integers(1, 1 << 17), st.lists(a_few_reads, max_size=60))
def test_what_is_ahead_of_those_who_read_now_is_never_more_than_the_room(
    room_kib: int, most_kib: int, turns: list[tuple[int, int, int, bool]]
) -> None:
    readers = Readers(ReadAhead(most_kib * _KIB, lambda: room_kib * _KIB))
    for reader, length_kib, reads, begins in turns:
        for _ in range(reads):
            begun_bytes = 100 << 20 if begins and not readers.at[reader] else 0
            readers.read(reader, length_kib * _KIB, begun_bytes)
            assert readers.together_bytes <= room_kib * _KIB
            assert readers.ahead_bytes(reader) <= most_kib * _KIB


@pytest.mark.slow
@pytest.mark.parametrize("part_kib", [128, 512])
@pytest.mark.parametrize("others", [1, 4, 20])
def test_who_reads_here_and_there_takes_little_from_who_reads_on(others: int, part_kib: int) -> None:
    """Each of their reads takes several calls, as the kernel makes them of one of 1 MiB."""
    mib = 1 << 20
    readers, far = Readers(ReadAhead(64 * mib, lambda: 170 * mib)), 100
    least = 64 * mib
    for step in range(1200):
        readers.read(0, mib // 2)
        for _ in range(others):
            far += 1
            for _ in range(1024 // part_kib):
                readers.read(far, part_kib * _KIB)
        if step > 300:
            least = min(least, readers.ahead_bytes(0))
    assert least > 60 * mib


def test_who_begins_beside_one_that_reads_on_has_as_much_in_the_end() -> None:
    mib = 1 << 20
    readers = Readers(ReadAhead(64 * mib, lambda: 64 * mib))
    for _ in range(300):
        readers.read(0, mib // 2)
    assert readers.ahead_bytes(0) > 62 * mib
    for _ in range(300):
        readers.read(0, mib // 2)
        readers.read(1, mib // 2)
    assert 30 * mib < readers.ahead_bytes(0) <= 32 * mib
    assert 30 * mib < readers.ahead_bytes(1) <= 32 * mib


def test_many_reads_here_and_there_forget_nobody_who_reads_on() -> None:
    ahead, mib = ReadAhead(64 << 20, lambda: sys.maxsize), 1 << 20
    for step in range(40):
        ahead.read(step * mib, mib)
        for far in range(MOST_STREAMS + 1 if step > 4 else 0):
            ahead.read((1000 + step * 1000 + far) << 30, 1000)
    assert len(ahead.read(40 * mib, mib)) > mib


@pytest.fixture
def stored() -> tuple[int, bytes]:
    content = os.urandom(3 * BLOCK_BYTES + 100)
    fd = os.memfd_create("shard")
    os.write(fd, b"head" + content)
    return fd, content


def test_blocks_are_what_was_checked(stored: tuple[int, bytes]) -> None:
    fd, content = stored
    shard = CheckedShard(fd, 4, len(content), block_sums(fd, 4, len(content), google_crc32c.value(content)), True)
    try:
        for offset, length in ((0, 1), (BLOCK_BYTES - 1, 2), (5, len(content) - 5), (len(content) - 1, 1)):
            assert shard.read(offset, length) == content[offset : offset + length]
        os.pwrite(fd, bytes([content[2 * BLOCK_BYTES] ^ 1]), 4 + 2 * BLOCK_BYTES)
        assert shard.read(0, 100) == content[:100], "another block"
        with pytest.raises(errors.DataLossError, match="have changed"):
            shard.read(3 * BLOCK_BYTES - 1, 1)
        os.ftruncate(fd, 100)
        with pytest.raises(errors.DataLossError, match="ends at"):
            shard.read(0, 100)
    finally:
        shard.close()


@given(st.integers(0, 2 * BLOCK_BYTES), st.integers(0, 3 * BLOCK_BYTES), st.data())
def test_blocks_of_the_file_wherever_the_shard_begins(phase: int, length_bytes: int, data: st.DataObject) -> None:
    content = random.Random(length_bytes).randbytes(length_bytes)
    fd, before = os.memfd_create("shard"), phase % BLOCK_BYTES
    os.write(fd, content)
    sums = block_sums(fd, 0, length_bytes, google_crc32c.value(content), before)
    assert len(sums) == (-(-(before + length_bytes) // BLOCK_BYTES) if length_bytes else 0)
    shard = CheckedShard(fd, 0, length_bytes, sums, True, before)
    try:
        for _ in range(4):
            offset = data.draw(st.integers(0, length_bytes))
            length = data.draw(st.integers(0, length_bytes - offset))
            if length:
                assert shard.read(offset, length) == content[offset : offset + length]
    finally:
        shard.close()


@given(st.integers(0, BLOCK_BYTES - 1), st.integers(1, 5), st.data())
def test_blocks_that_are_checked_at_once_are_what_was_checked(phase: int, blocks: int, data: st.DataObject) -> None:
    """As the kernel asks for them: whole ones, of a shard in memory."""
    length_bytes = blocks * BLOCK_BYTES - phase
    content = random.Random(length_bytes).randbytes(length_bytes)
    sums = block_sums_of(content, phase)
    fd = os.memfd_create("shard")
    os.write(fd, content)
    shard = CheckedShard(fd, 0, length_bytes, sums, True, phase)
    try:
        first = data.draw(st.integers(0, blocks - 1))
        begin, end = (
            max(first * BLOCK_BYTES - phase, 0),
            data.draw(st.integers(first + 1, blocks)) * BLOCK_BYTES - phase,
        )
        assert shard.read(begin, end - begin, False) == content[begin:end]
        damaged = data.draw(st.integers(0, length_bytes - 1))
        os.pwrite(fd, bytes([content[damaged] ^ data.draw(st.integers(1, 255))]), damaged)
        if begin <= damaged < end:
            block = max((damaged + phase) // BLOCK_BYTES * BLOCK_BYTES - phase, 0)
            with pytest.raises(errors.DataLossError, match=f"its bytes at {block} have changed"):
                shard.read(begin, end - begin, False)
        else:
            assert shard.read(begin, end - begin, False) == content[begin:end]
    finally:
        shard.close()


def block_sums_of(content: bytes, phase: int) -> BlockSums[int]:
    fd = os.memfd_create("content")
    try:
        os.write(fd, content)
        return block_sums(fd, 0, len(content), google_crc32c.value(content), phase)
    finally:
        os.close(fd)


def test_what_the_kernel_asks_for_is_whole_blocks(stored: tuple[int, bytes]) -> None:
    """The shard begins in the middle of one: blocks beside those that are asked for are not looked at."""
    fd, content = stored
    phase = 1000
    shard = CheckedShard(fd, 4, len(content), block_sums(fd, 4, len(content), google_crc32c.value(content), phase),
                         True, phase)  # fmt: skip
    second, third = BLOCK_BYTES - phase, 2 * BLOCK_BYTES - phase
    try:
        for at in (second - 1, third):
            os.pwrite(fd, bytes([content[at] ^ 1]), 4 + at)
            with pytest.raises(errors.DataLossError, match="have changed"):
                shard.read(at, 1)
        assert shard.read(second, BLOCK_BYTES) == content[second:third]
    finally:
        shard.close()


def test_a_shard_that_is_not_its_checksums(stored: tuple[int, bytes]) -> None:
    fd, content = stored
    try:
        with pytest.raises(errors.DataLossError, match="its CRC"):
            block_sums(fd, 4, len(content), google_crc32c.value(content) ^ 1)
        with pytest.raises(errors.DataLossError, match="it ends at"):
            block_sums(fd, 5, len(content), google_crc32c.value(content))
    finally:
        os.close(fd)
