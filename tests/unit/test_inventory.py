"""What a node tells of its shards: the coordinator's picture follows, whatever is lost, repeated or asked for again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node import inventory
from tfquiver.service.node.inventory import Inventory

names = st.integers(0, 20).map(lambda n: n.to_bytes(32, "little"))
events = st.lists(
    st.one_of(st.tuples(st.just("toggle"), names), st.sampled_from([("beat",), ("lost",), ("repeat",), ("forget",)])),
    max_size=60,
)


class Picture:
    """The coordinator's side: applies each version once, and asks for everything after a gap."""

    def __init__(self) -> None:
        self.held: set[bytes] = set()
        self.version = -1

    def apply(self, report: pb.Inventory) -> bool:
        if not report.version or report.version == self.version:
            return True
        if not report.full and report.version != self.version + 1:
            return False
        if report.full:
            self.held.clear()
        self.version = report.version
        self.held.update(report.added)
        self.held.difference_update(report.removed)
        return True


def beat(told: Inventory, picture: Picture) -> None:
    applied = picture.apply(told.report())
    told.arrived()
    if not applied:
        told.resend()


@given(events)
def test_the_picture_follows(events: list[tuple[str, ...]]) -> None:
    held: set[bytes] = set()
    told = Inventory(lambda: set(held), lambda: None)
    picture = Picture()
    for event in events:
        match event:
            case ("toggle", name) if isinstance(name, bytes) and name in held:
                held.discard(name)
                told.remove(name)
            case ("toggle", name) if isinstance(name, bytes):
                held.add(name)
                told.add(name)
            case ("beat",):
                beat(told, picture)
            case ("lost",):
                told.report()
            case ("repeat",):
                picture.apply(told.report())
            case ("forget",):
                picture = Picture()
    for _ in range(4):
        beat(told, picture)
    assert picture.held == held
    assert not told.waiting
    assert told.report().version == 0


def test_a_long_list_is_told_in_bounded_parts() -> None:
    hashes = [n.to_bytes(32, "little") for n in range(inventory.MAX_HASHES * 2 + 1)]
    told = Inventory(lambda: hashes, lambda: None)
    picture = Picture()
    beats = 0
    while told.waiting:
        assert len(told.report().added) <= inventory.MAX_HASHES
        beat(told, picture)
        beats += 1
    assert beats == 3
    assert picture.held == set(hashes)


def test_a_change_is_told_at_once() -> None:
    woken: list[bool] = []
    Inventory(lambda: (), lambda: woken.append(True)).add(b"\0" * 32)
    assert woken
