"""When nothing of a data set moves any more, though not all of it has room where it should be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.steps import steps
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MoveReport
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.move_reports import MoveReports

ID = b"i" * 32
VERSION = 7


class Node:
    """Looks as nodes do, at shards of one size: takes over what it owns while it has room, then gives up what it does
    not own and all its owners hold. What it says arrives before its next look begins, not at once."""

    def __init__(self, name: str, room: int, held: set[int]) -> None:
        self.name, self.room, self.held = name, max(room, len(held)), set(held)
        self.report = MoveReport(digest_id=ID, places_version=VERSION)
        self.unsaid: MoveReport | None = None

    def look(self, nodes: list[Node], owner: dict[int, str]) -> bool:
        """Whether something was done."""
        of = {node.name: node for node in nodes}
        there = set().union(*(node.held for node in nodes))
        lacking = sorted(shard for shard in there - self.held if owner[shard] == self.name)
        come = lacking[: max(0, self.room - len(self.held))]
        extra = [shard for shard in self.held if owner[shard] != self.name]
        self.held.update(come)
        gone = {shard for shard in extra if shard in of[owner[shard]].held}
        self.held -= gone
        left = len(lacking) - len(come)
        self.report.to_come_shards = self.report.no_room_shards = left
        self.report.to_go_shards = len(extra) - len(gone)
        self.report.came_bytes += len(come)
        self.report.gone_shards += len(gone)
        self.report.idle_looks = 0 if come or gone else self.report.idle_looks + 1
        self.unsaid = MoveReport.FromString(self.report.SerializeToString())
        return bool(come or gone)

    def say(self, reports: MoveReports) -> None:
        if self.unsaid is not None:
            reports.take(self.name, [self.unsaid])
        self.unsaid = None


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_it_is_over_when_no_node_can_do_anything_more_and_not_before(data: st.DataObject) -> None:
    names = ["a", "b", "c"]
    owner = {shard: data.draw(st.sampled_from(names)) for shard in range(8)}
    nodes = [Node(name, data.draw(st.integers(0, 4)), data.draw(st.sets(st.integers(0, 7)))) for name in names]
    reports = MoveReports()
    turns = (
        data.draw(st.lists(st.integers(0, 2), max_size=30)) + [0, 1, 2] * 24
    )  # ten are too few for a chain of moves, each of which makes room for the next
    for turn in turns:
        node = nodes[turn]
        node.say(reports)
        node.look(nodes, owner)
        if reports.settled(ID, names, VERSION):
            for other in nodes:
                assert not Node(other.name, other.room, other.held).look(nodes, owner), f"{other.name} is not done"
    assert reports.settled(ID, names, VERSION), "it never ends"


def test_two_full_nodes_that_hold_what_the_other_owns_settle() -> None:
    reports = MoveReports()

    def say(name: str, looks: int, came_bytes: int = 0) -> None:
        report = MoveReport(
            digest_id=ID, places_version=VERSION, to_come_shards=1, no_room_shards=1, to_go_shards=1,
            came_bytes=came_bytes, idle_looks=looks,
        )  # fmt: skip
        reports.take(name, [report])

    for looks in range(3):
        for name in "ab":
            assert not reports.settled(ID, "ab", VERSION)
            say(name, looks)
    for name in "ab":
        say(name, 9)
    assert reports.settled(ID, "ab", VERSION)
    assert not reports.settled(ID, "abc", VERSION)
    assert not reports.settled(ID, "ab", 0)
    say("a", 10, came_bytes=1)  # it has got room
    assert not reports.settled(ID, "ab", VERSION)


def test_a_node_of_an_earlier_version_says_nothing_of_its_looks_and_is_waited_for() -> None:
    reports = MoveReports()
    for _ in range(5):
        reports.take("a", [MoveReport(digest_id=ID, places_version=VERSION, to_come_shards=1, no_room_shards=1)])
    assert not reports.settled(ID, "a", VERSION)


def test_nothing_is_remembered_of_data_sets_that_nobody_tells_of() -> None:
    reports = MoveReports()
    reports.take("a", [MoveReport(digest_id=ID)])
    reports.take("b", [MoveReport(digest_id=ID)])
    reports.take("a", [])
    reports.gone("b")
    assert not reports._sets


reported = st.builds(
    MoveReport,
    digest_id=st.just(ID),
    places_version=st.integers(VERSION, VERSION + 1),
    to_come_shards=st.integers(0, 1),
    came_bytes=st.integers(0, 1),
    idle_looks=st.integers(0, 6),
)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | reported), max_size=40))
@settings(deadline=None, max_examples=300)
def test_it_is_what_the_definition_says(said: list[tuple[str, MoveReport | None]]) -> None:
    """Also of nodes that count wrongly, go and come back: looks count from those that each had had at the last move."""
    reports, last, counts_from = MoveReports(), dict[str, MoveReport](), dict[str, int]()
    for name, report in said:
        before = last.get(name)
        if report is None:
            last.pop(name, None)
            reports.gone(name)
            continue
        last[name] = report
        reports.take(name, [report])
        amounts = [(one.places_version, one.came_bytes, one.gone_shards) for one in (before or report, report)]
        looked = [one.idle_looks for one in (before or report, report)]
        if before is None or not looked[1] or amounts[0] != amounts[1] or looked[1] < looked[0]:
            counts_from = {other: its.idle_looks + 2 for other, its in last.items()}
        for names in ("a", "ab", "abc", "c"):
            settled = all(
                (its := last.get(other)) is not None
                and its.places_version == VERSION
                and not (its.to_come_shards and its.idle_looks < counts_from[other])
                for other in names
            )
            assert reports.settled(ID, names, VERSION) == settled


def test_another_number_is_told_when_something_has_moved_and_only_then() -> None:
    reports = MoveReports()
    assert reports.moved(ID) == 0
    told = []
    for looks, came_bytes in ((0, 0), (0, 0), (1, 0), (2, 0), (0, 5), (1, 5)):
        left = MoveReport(digest_id=ID, to_come_shards=1, idle_looks=looks, came_bytes=came_bytes)
        reports.take("a", [left])
        told.append(reports.moved(ID))
    assert told == [1, 1, 1, 1, 2, 2], "of a disk in trouble, which has looked at nothing, nothing has moved"


def costs(nodes: int) -> tuple[int, int]:
    """Steps of `take` and of `settled`, where all have looked in vain since the last of them was heard of."""
    reports, names = MoveReports(), [f"n{number}" for number in range(nodes)]
    for looks in (1, 4):
        for name in names:
            left = MoveReport(digest_id=ID, places_version=VERSION, to_come_shards=1, idle_looks=looks)
            reports.take(name, [left])
    assert reports.settled(ID, names, VERSION)
    asked = steps(lambda: reports.settled(ID, names, VERSION))
    moved = MoveReport(digest_id=ID, places_version=VERSION, to_come_shards=1, came_bytes=1)
    taken = steps(lambda: reports.take("n0", [moved]))
    assert not reports.settled(ID, names, VERSION)
    return taken, asked


def test_a_report_costs_the_same_with_a_thousand_nodes() -> None:
    assert costs(10) == costs(1000) > (50, 10)
