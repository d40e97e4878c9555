"""Which batches of a stream are here, in memory or on the disk, and what goes when there are too many. Pure.

Both bounds hold at any moment, whatever the disk does: what does not get onto it in time is dropped. What every trainer
has had goes first, then what is oldest; the memory of a batch that somebody still wants is written to the disk before
its room is needed. Memory files and files on the disk are numbers here, which others open and close.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_IN_MEMORY = 512  # batches; each is a descriptor
MOST_SEGMENTS = 1024  # and so is each of these


@dataclass(frozen=True, slots=True)
class InMemory:
    handle: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class OnDisk:
    segment: int
    offset: int
    length_bytes: int


Place = InMemory | OnDisk


@dataclass(frozen=True, slots=True)
class Forget:
    """These memory files are not needed any more."""

    handles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """This segment is not needed any more."""

    segment: int


@dataclass(frozen=True, slots=True)
class Spill:
    """Write these memory files, one behind the other, into a new segment; then say `spilled`."""

    segment: int
    handles: tuple[int, ...]
    size_bytes: int


Step = Forget | Delete | Spill
# The lowest batch of a pass that somebody wants, or may want; None: nobody.
Wanted = Callable[[int], int | None]


@dataclass(frozen=True, slots=True)
class _Segment:
    pass_: int
    batches: tuple[tuple[int, int, int], ...]  # index, offset, length
    size_bytes: int

    @property
    def last(self) -> int:
        return self.batches[-1][0]


class Window:
    """Batches are known by (pass, index)."""

    def __init__(self, memory_bytes: int, spill_bytes: int, most_segments: int = MOST_SEGMENTS) -> None:
        self.memory_bytes, self.spill_bytes, self.most_segments = memory_bytes, spill_bytes, most_segments
        self.in_memory_bytes = self.on_disk_bytes = 0
        self._segment_bytes = max(1, min(memory_bytes, spill_bytes) // 4)
        self._places: dict[tuple[int, int], Place] = {}
        self._memory: dict[int, deque[int]] = {}  # of each pass, oldest first
        self._segments: dict[int, _Segment] = {}  # oldest first
        self._of_pass: dict[int, deque[int]] = {}  # those of each pass, by their batches: the first is done with first
        self._spilling: tuple[int, _Segment] | None = None
        self._cancelled = False  # nobody wants any more what is being written
        self._made = 0
        self._stuck = False  # the disk did not take what it was given last

    def place(self, pass_: int, index: int) -> Place | None:
        return self._places.get((pass_, index))

    def fits(self, length_bytes: int) -> bool:
        """A quarter: there must be room for those on the way to the disk, and for those that are about to be read."""
        return length_bytes <= self.memory_bytes // 4

    def put(self, pass_: int, index: int, handle: int, length_bytes: int) -> list[Step]:
        """One more, in the order of their indexes. Before: what has to go, so that it fits at once."""
        steps: list[Step] = []
        while self.in_memory_bytes + length_bytes > self.memory_bytes or self._count() >= MOST_IN_MEMORY:
            steps.append(Forget((self._drop_oldest(),)))
        self._places[pass_, index] = InMemory(handle, length_bytes)
        self._memory.setdefault(pass_, deque()).append(index)
        self.in_memory_bytes += length_bytes
        return steps

    def step(self, wanted: Wanted) -> Step | None:
        """What is to be done next, until there is nothing."""
        for pass_, numbers in self._of_pass.items():
            lowest = wanted(pass_)
            if lowest is None or self._segments[numbers[0]].last < lowest:
                return self._delete(numbers[0])
        half = 2 * self.in_memory_bytes > self.memory_bytes or 2 * self._count() > MOST_IN_MEMORY
        if self._spilling or self._stuck or not self.spill_bytes or not half:
            return None
        # What nobody wants any more stays for those who come late, until its room is needed.
        kept = {pass_: self._from(pass_, wanted(pass_)) for pass_ in sorted(self._memory)}
        count = sum(map(len, kept.values()))
        size_bytes = sum(self._places[pass_, index].length_bytes for pass_, some in kept.items() for index in some)
        if 2 * size_bytes <= self.memory_bytes and 2 * count <= MOST_IN_MEMORY:
            return None
        return self._spill(*next((pass_, some) for pass_, some in kept.items() if some))

    def spilled(self, written: bool) -> list[Step]:
        """The last `Spill` has been carried out, or could not be; then there is no segment."""
        assert self._spilling is not None
        (number, segment), self._spilling = self._spilling, None
        cancelled, self._cancelled, self._stuck = self._cancelled, False, not written
        if not written or cancelled:
            self.on_disk_bytes -= segment.size_bytes
            return [Delete(number)] if written else []
        self._segments[number] = segment
        self._of_pass.setdefault(segment.pass_, deque()).append(number)
        handles = []
        for index, offset, length_bytes in segment.batches:
            place = self._places.get((segment.pass_, index))
            if isinstance(place, InMemory):
                handles.append(place.handle)
                self._forget(segment.pass_, index, place)
            self._places[segment.pass_, index] = OnDisk(number, offset, length_bytes)
        return [Forget(tuple(handles))]

    def try_disk_again(self) -> None:
        self._stuck = False

    def drop_pass(self, pass_: int) -> list[Step]:
        """Nobody will want anything of it any more."""
        steps: list[Step] = []
        handles = []
        for index in list(self._memory.get(pass_, ())):
            place = self._places.pop((pass_, index))
            assert isinstance(place, InMemory)
            handles.append(place.handle)
            self._forget(pass_, index, place)
        if handles:
            steps.append(Forget(tuple(handles)))
        self._cancelled |= self._spilling is not None and self._spilling[1].pass_ == pass_
        steps += [self._delete(number) for number in list(self._of_pass.get(pass_, ()))]
        return steps

    # Inside.

    def _count(self) -> int:
        return sum(map(len, self._memory.values()))

    def _from(self, pass_: int, lowest: int | None) -> list[int]:
        return [] if lowest is None else [index for index in self._memory[pass_] if index >= lowest]

    def _forget(self, pass_: int, index: int, place: InMemory) -> None:
        self._memory[pass_].remove(index)
        if not self._memory[pass_]:
            del self._memory[pass_]
        self.in_memory_bytes -= place.length_bytes

    def _drop_oldest(self) -> int:
        pass_ = min(self._memory)
        index = self._memory[pass_][0]
        place = self._places.pop((pass_, index))
        assert isinstance(place, InMemory)
        self._forget(pass_, index, place)
        return place.handle

    def _delete(self, number: int) -> Delete:
        segment = self._segments.pop(number)
        its = self._of_pass[segment.pass_]
        its.remove(number)  # as a rule the first
        if not its:
            del self._of_pass[segment.pass_]
        for index, _, _ in segment.batches:
            self._places.pop((segment.pass_, index), None)
        self.on_disk_bytes -= segment.size_bytes
        return Delete(number)

    def _spill(self, pass_: int, oldest: Sequence[int]) -> Step | None:
        handles: list[int] = []
        batches: list[tuple[int, int, int]] = []
        size_bytes = 0
        for index in oldest:
            place = self._places[pass_, index]
            assert isinstance(place, InMemory)
            if handles and size_bytes + place.length_bytes > self._segment_bytes:
                break
            handles.append(place.handle)
            batches.append((index, size_bytes, place.length_bytes))
            size_bytes += place.length_bytes
        if size_bytes > self.spill_bytes or not self.most_segments:
            return None
        if self.on_disk_bytes + size_bytes > self.spill_bytes or len(self._segments) >= self.most_segments:
            return self._delete(next(iter(self._segments)))
        self._made += 1
        self._spilling = self._made, _Segment(pass_, tuple(batches), size_bytes)
        self.on_disk_bytes += size_bytes
        return Spill(self._made, tuple(handles), size_bytes)
