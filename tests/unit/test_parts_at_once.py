"""What a mount reads at once for readers who go forward: fewer reads, no other bytes, and little for nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tfquiver.mounting.reading_ahead.parts_at_once import MOST_PARTS, PART_BYTES, PartsAtOnce

KIB = 1 << 10
PIECE = 128 * KIB
FILES = [random.Random(number).randbytes(3 << 20) for number in range(MOST_PARTS + 2)]


@dataclass
class Reader:
    """Reads files as a mount does: `left` is how much of what a read is in can be read with it."""

    parts: PartsAtOnce = field(default_factory=PartsAtOnce)
    reads: int = 0
    read_bytes: int = 0

    def read(self, file: int, offset: int, length: int, left: int = 1 << 30, fails: bool = False) -> bytes:
        if (found := self.parts.find(file, offset, length)) is not None:
            return bytes(found)
        at_once = self.parts.length(file, offset, length, max(length, min(left, len(FILES[file]) - offset)))
        assert at_once >= length
        if at_once > length:
            room = self.parts.room(file)
            if not fails:
                self._count(at_once)
                room[:at_once] = FILES[file][offset : offset + at_once]
                self.parts.keep(file, offset, room[:at_once])
                return bytes(room[:length])
        self._count(length)
        return FILES[file][offset : offset + length]

    def _count(self, length: int) -> None:
        self.reads += 1
        self.read_bytes += length


def test_who_goes_forward_is_read_for_once_in_four() -> None:
    reader = Reader()
    for offset in range(0, len(FILES[0]), PIECE):
        assert reader.read(0, offset, PIECE) == FILES[0][offset : offset + PIECE]
    assert reader.reads <= 3 + len(FILES[0]) // PART_BYTES
    assert reader.read_bytes == len(FILES[0])


def test_as_many_files_side_by_side() -> None:
    reader = Reader()
    for offset in range(0, len(FILES[0]), PIECE):
        for file in range(MOST_PARTS):
            assert reader.read(file, offset, PIECE) == FILES[file][offset : offset + PIECE]
    assert reader.reads <= MOST_PARTS * (3 + len(FILES[0]) // PART_BYTES)


@given(st.integers(1, 16), st.integers(0, 1 << 20))
def test_here_and_there_costs_at_most_twice_as_much(pieces: int, seed: int) -> None:
    """Several pieces of the kernel's at a time, at places that have nothing to do with each other."""
    reader, choose, wanted = Reader(), random.Random(seed), 0
    for _ in range(20):
        begin = choose.randrange(0, len(FILES[0]) - pieces * PIECE)
        for offset in range(begin, begin + pieces * PIECE, PIECE):
            assert reader.read(0, offset, PIECE) == FILES[0][offset : offset + PIECE]
            wanted += PIECE
    assert reader.read_bytes <= 2 * wanted
    if pieces <= 2:
        assert reader.read_bytes <= wanted


_READS = st.lists(
    st.tuples(st.integers(0, len(FILES) - 1), st.integers(0, 12), st.booleans(), st.booleans()), max_size=80
)


@given(_READS, st.integers(1, 6))
def test_whatever_is_read_in_whatever_order_is_the_files(reads: list[tuple[int, int, bool, bool]], left: int) -> None:
    reader, at = Reader(), dict[int, int]()
    for file, piece, goes_on, fails in reads:
        offset = at.get(file, 0) if goes_on else piece * PIECE // 2
        offset = min(offset, len(FILES[file]) - PIECE)
        read = reader.read(file, offset, PIECE, left * PIECE, fails)
        assert read == FILES[file][offset : offset + PIECE]
        at[file] = offset + PIECE


def test_rooms_are_no_more_than_parts_however_many_files_are_read() -> None:
    reader, rooms = Reader(), list[object]()
    for turn in range(3):
        for file in range(len(FILES)):
            for offset in range(0, 4 * PART_BYTES, PIECE):
                reader.read(file, offset, PIECE, fails=turn == 1)
            room = reader.parts.room(file).obj
            if not any(room is one for one in rooms):
                rooms.append(room)
    assert len(rooms) <= MOST_PARTS
