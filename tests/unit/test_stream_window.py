"""The window of a stream: both bounds at every moment, every handle closed once, what is wanted kept while it fits."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.node.shared_batches.window import Delete, Forget, InMemory, OnDisk, Spill, Step, Window


class World:
    """What `streams` does with steps, on numbers."""

    def __init__(self, memory_bytes: int, spill_bytes: int, most_segments: int = 1024) -> None:
        self.window = Window(memory_bytes, spill_bytes, most_segments)
        self.lowest: dict[int, int] = {}
        self.handles: dict[int, int] = {}  # open memory: bytes
        self.segments: dict[int, list[int]] = {}  # of which handle's bytes each piece is, as (offset of it)
        self.content: dict[int, list[tuple[int, int]]] = {}  # segment -> (handle, offset)
        self.writing: Spill | None = None
        self.numbers = itertools.count(1)
        self.published: dict[tuple[int, int], int] = {}

    def carry_out(self, step: Step) -> None:
        match step:
            case Forget():
                for handle in step.handles:
                    del self.handles[handle]  # once
            case Delete():
                del self.content[step.segment]
            case Spill():
                assert self.writing is None
                self.writing = step
                offsets = itertools.accumulate((self.handles[one] for one in step.handles), initial=0)
                self.pieces = list(zip(step.handles, offsets, strict=False))

    def settle(self) -> None:
        while (step := self.window.step(self.lowest.get)) is not None:
            self.carry_out(step)

    def put(self, pass_: int, index: int, length_bytes: int) -> None:
        handle = next(self.numbers)
        self.handles[handle] = length_bytes
        for step in self.window.put(pass_, index, handle, length_bytes):
            self.carry_out(step)
        self.published[pass_, index] = handle
        self.check()
        self.settle()
        self.check()

    def written(self, well: bool) -> None:
        if self.writing is None:
            return
        if well:
            self.content[self.writing.segment] = self.pieces
        self.writing = None
        for step in self.window.spilled(well):
            self.carry_out(step)
        self.settle()
        self.check()

    def check(self) -> None:
        window = self.window
        assert sum(self.handles.values()) == window.in_memory_bytes <= window.memory_bytes
        assert window.on_disk_bytes <= window.spill_bytes
        assert len(self.content) <= window.most_segments
        for (pass_, index), handle in self.published.items():
            match window.place(pass_, index):
                case InMemory() as place:
                    assert place.handle == handle and handle in self.handles
                case OnDisk() as place:
                    assert (handle, place.offset) in self.content[place.segment]


@given(st.data())
def test_bounds_hold_and_what_is_found_is_what_was_put(data: st.DataObject) -> None:
    memory_bytes = data.draw(st.integers(16, 200))
    world = World(memory_bytes, data.draw(st.integers(0, 300)), data.draw(st.integers(0, 5)))
    heads: dict[int, int] = {}
    for _ in range(data.draw(st.integers(1, 60))):
        match data.draw(st.sampled_from(["put", "put", "put", "advance", "written", "failed", "again", "drop"])):
            case "put":
                pass_ = data.draw(st.integers(0, 2))
                world.lowest.setdefault(pass_, 0)
                index = heads.get(pass_, 0)
                heads[pass_] = index + 1
                world.put(pass_, index, data.draw(st.integers(1, memory_bytes // 4)))
            case "advance" if heads:
                pass_ = data.draw(st.sampled_from(sorted(heads)))
                world.lowest[pass_] = data.draw(st.integers(world.lowest.get(pass_, 0), heads[pass_]))
                world.settle()
            case "written":
                world.written(True)
            case "failed":
                world.written(False)
            case "again":
                world.window.try_disk_again()
                world.settle()
            case "drop" if heads:
                pass_ = data.draw(st.sampled_from(sorted(heads)))
                for step in world.window.drop_pass(pass_):
                    world.carry_out(step)
                del world.lowest[pass_], heads[pass_]
                world.published = {key: one for key, one in world.published.items() if key[0] != pass_}
                world.settle()
        world.check()
    world.written(True)
    for pass_ in list(heads):
        for step in world.window.drop_pass(pass_):
            world.carry_out(step)
    world.written(True)
    assert not world.handles and not world.content, "nothing stays open"
    assert (world.window.in_memory_bytes, world.window.on_disk_bytes) == (0, 0)


def test_what_a_slow_trainer_wants_goes_to_the_disk_and_what_nobody_wants_does_not() -> None:
    world = World(memory_bytes=100, spill_bytes=1000)
    world.lowest[0] = 10
    for index in range(60):
        world.put(0, index, 10)
        world.written(True)
    assert not any(isinstance(world.window.place(0, index), OnDisk) for index in range(10))
    assert all(world.window.place(0, index) is not None for index in range(10, 60))
    assert isinstance(world.window.place(0, 10), OnDisk) and isinstance(world.window.place(0, 59), InMemory)
    world.lowest[0] = 60
    world.settle()
    assert world.window.on_disk_bytes == 0, "the disk is given back as soon as everybody has had it"


def test_the_oldest_goes_where_both_are_full_and_the_newest_stays() -> None:
    world = World(memory_bytes=100, spill_bytes=200)
    world.lowest[0] = 0
    for index in range(100):
        world.put(0, index, 10)
        world.written(True)
    here = [index for index in range(100) if world.window.place(0, index)]
    assert here == list(range(here[0], 100)) and 20 <= len(here) <= 30


def test_a_disk_that_hangs_stalls_nobody() -> None:
    world = World(memory_bytes=100, spill_bytes=1000)
    world.lowest[0] = 0
    for index in range(50):
        world.put(0, index, 10)  # what is being written is never there
    assert world.writing is not None
    assert all(world.window.place(0, index) for index in range(45, 50))


def test_a_batch_that_is_too_large_for_the_window_is_none_of_it() -> None:
    window = Window(100, 0)
    assert window.fits(25) and not window.fits(26)


def test_with_each_batch_no_more_is_looked_at_however_much_is_on_the_disk() -> None:
    world = World(memory_bytes=100, spill_bytes=1 << 20)
    world.lowest[0], world.lowest[1] = 0, 0
    for index in range(600):
        world.put(index % 2, index // 2, 10)
        world.written(True)
    assert len(world.content) > 200
    asked: list[int] = []

    def wanted(pass_: int) -> int | None:
        asked.append(pass_)
        return world.lowest[pass_]

    assert world.window.step(wanted) is None
    assert len(asked) < 10
