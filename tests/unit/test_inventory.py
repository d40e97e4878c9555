"""What a node tells of its shards: the coordinator's picture follows, whatever is lost, repeated or asked for again.

The coordinator is the real one, with a clock that stands still and no server; each of its lives has a directory.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.digests import digest_of
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.service.node.coordinator_link import inventory_reports
from tfquiver.service.node.coordinator_link.inventory_reports import InventoryReports

NAMES = [n.to_bytes(8, "big") * 4 for n in range(21)]
LASTING = digest_of(NAMES, "all of them")
Event = tuple[str, int]
# Each with a number, which says which hash is toggled. "lost": the heartbeat's request; "unheard": its reply.
events: st.SearchStrategy[list[Event]] = st.lists(
    st.tuples(
        st.sampled_from(["toggle", "toggle", "beat", "beat", "lost", "unheard", "forget", "restart", "expel"]),
        st.integers(0, len(NAMES) - 1),
    ),
    max_size=60,
)


class World:
    """One node, which dies and comes back with its shards; and a coordinator, which comes back without its memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.held: set[bytes] = set()
        self.lives = 0
        self.restart()

    async def __aenter__(self) -> World:
        self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.coordinator.stop()

    async def forget(self) -> None:
        """The coordinator starts again: what nodes hold is not in its log."""
        await self.coordinator.stop()
        self._begin()

    def _begin(self) -> None:
        self.coordinator = Coordinator(self._folder, CoordinatorOptions(), ManualClock())
        self.coordinator.residency.open(Table(LASTING))

    def restart(self) -> None:
        self.lives += 1
        self.told = InventoryReports(lambda: set(self.held), lambda: None)

    def toggle(self, hash: bytes) -> None:
        if hash in self.held:
            self.held.discard(hash)
            self.told.remove(hash)
        else:
            self.held.add(hash)
            self.told.add(hash)

    async def expel(self) -> None:
        """The node counts as gone, and does not know."""
        await self.coordinator.leave("node", str(self.lives))

    def send(self) -> pb.HeartbeatReply:
        node = types_pb2.NodeInfo(node_id="node", quota_bytes=1)
        request = pb.HeartbeatRequest(node=node, incarnation=str(self.lives), inventory=self.told.report())
        return self.coordinator.heartbeats.take(request)

    def beat(self) -> None:
        self.told.arrived(self.send().resend_inventory)

    @property
    def picture(self) -> set[bytes]:
        table = self.coordinator.residency.table(LASTING.digest_id)
        return {name for name, resident in zip(NAMES, table.resident, strict=True) if resident}


@given(events)
@example([("beat", 0), ("toggle", 0), ("beat", 0), ("forget", 0)])  # nothing to tell, and nobody remembers
def test_the_picture_follows(events: list[Event]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(events, Path(folder)))


async def play(events: list[Event], folder: Path) -> None:
    async with World(folder) as world:
        for event, number in events:
            match event:
                case "toggle":
                    world.toggle(NAMES[number])
                case "beat":
                    world.beat()
                case "lost":
                    world.told.report()
                case "unheard":
                    world.send()
                case "forget":
                    await world.forget()
                case "restart":
                    world.restart()
                case "expel":
                    await world.expel()
        # What the worst of these needs: a gap is seen, everything is told, then what has changed meanwhile.
        for _ in range(3):
            world.beat()
        assert world.picture == world.held
        assert not world.told.waiting
        assert world.told.told == world.told.made
        assert world.told.report().version == 0


def test_a_long_list_is_told_in_bounded_parts() -> None:
    hashes = [n.to_bytes(32, "little") for n in range(inventory_reports.MAX_HASHES * 2 + 1)]
    told = InventoryReports(lambda: hashes, lambda: None)
    seen: set[bytes] = set()
    beats = 0
    while told.waiting:
        report = told.report()
        assert len(report.added) <= inventory_reports.MAX_HASHES
        assert report.more == (beats < 2)
        seen.update(report.added)
        told.arrived(resend=False)
        beats += 1
    assert beats == 3
    assert seen == set(hashes)


def test_a_change_is_told_at_once() -> None:
    woken: list[bool] = []
    InventoryReports(lambda: (), lambda: woken.append(True)).add(b"\0" * 32)
    assert woken


def test_what_has_arrived_is_known_and_a_list_that_is_asked_for_again_has_not() -> None:
    held: list[bytes] = []
    told = InventoryReports(lambda: held, lambda: None)

    def change(n: int) -> int:
        held.append(n.to_bytes(32, "little"))
        told.add(held[-1])
        return told.made

    def beat(resend: bool = False) -> None:
        told.report()
        told.arrived(resend)

    first = change(1)
    beat()  # the whole list
    assert told.told < first, "changes are told after the list that was drawn with them"
    beat()
    assert told.told == first
    second = change(2)
    told.report()
    assert told.told < second, "it is under way"
    beat(resend=True)
    assert told.told < second, "the coordinator has lost track"
    beat()
    assert told.told == second


def test_the_heartbeat_is_woken_once_for_what_the_next_report_has() -> None:
    """Small shards come by the hundred a second: to wake the loop for each costs more than to tell of it."""
    woken: list[int] = []
    reports = InventoryReports(list, lambda: woken.append(1))
    for held in NAMES[:5]:
        reports.add(held)
    assert len(woken) == 1
    assert reports.report().full
    reports.add(NAMES[5])  # while that is on its way
    reports.remove(NAMES[5])
    assert len(woken) == 2
    reports.arrived(resend=False)
    assert reports.report().added == NAMES[:5]
    assert reports.report().removed == [NAMES[5]]


def test_what_changes_while_a_report_is_made_takes_no_wake_from_what_comes_after_it() -> None:
    woken: list[int] = []
    reports = InventoryReports(list, lambda: woken.append(1))
    reports.report()
    reports.arrived(resend=False)

    class Slow(bytes):
        """Another thread changes something while the report is at this one."""

        def __hash__(self) -> int:
            while others:
                reports.add(others.pop())
            return super().__hash__()

    others = [NAMES[1]]
    reports.add(Slow(NAMES[0]))
    reports.report()
    reports.arrived(resend=False)
    assert not reports.waiting
    woken.clear()
    reports.add(NAMES[2])
    assert woken
