"""What the histogram of readers' stalls is told, report by report."""

from __future__ import annotations

from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.service.node.reader_sessions.reader_stalls import ReaderStalls


class World:
    def __init__(self) -> None:
        self.now_s, self.told = 100.0, list[float]()
        self.stalls = ReaderStalls(self.told.append, lambda: self.now_s)

    def report(self, records: int, waited_s: float, after_s: float = 1.0) -> None:
        self.now_s += after_s
        self.stalls.heard(frames.Report(records, 10 * records, round(waited_s * 1e6), 0))


def test_each_second_in_which_it_reads_is_told_of() -> None:
    world = World()
    world.report(10, 0.25)
    world.report(20, 0.25)
    world.report(30, 0.75)
    assert world.told == [0.25, 0.0, 0.5]


def test_a_wait_of_many_seconds_is_one() -> None:
    world = World()
    world.report(10, 0.0)
    for second in range(1, 30):
        world.report(10, float(second))
    assert world.told == [0.0]
    world.report(20, 29.5)
    assert world.told == [0.0, 29.5]
    world.report(30, 29.5)
    assert world.told == [0.0, 29.5, 0.0]


def test_who_does_not_ask_waits_for_nothing() -> None:
    world = World()
    world.report(10, 0.5)
    for _ in range(10):
        world.report(10, 0.5)
    world.stalls.gone()
    assert world.told == [0.5]


def test_who_goes_while_it_waits_has_waited() -> None:
    world = World()
    world.report(10, 0.0)
    world.report(10, 1.0)
    world.stalls.gone()
    world.stalls.gone()
    assert world.told == [0.0, 1.0]


def test_what_it_waited_at_another_node_does_not_count_here() -> None:
    world = World()
    world.report(10**6, 3000.0)
    world.report(10**6 + 10, 3000.5)
    assert world.told[0] < 10.0
    assert world.told[1:] == [0.5]


def test_what_cannot_be_is_not_believed() -> None:
    world = World()
    world.report(10, 0.5)
    world.report(9, 0.6)  # an old one
    world.report(20, 0.4)
    world.report(2**64 - 1, (2**64 - 1) / 1e6)
    assert world.told[:1] == [0.5]
    assert world.told[1] < 10.0
