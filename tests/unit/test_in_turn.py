"""What a node tells of more than it can tell at once, and what a coordinator makes of it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.support.digests import numbered_digest
from tests.support.placed_world import World
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import PlacementSet
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MountReport, MoveReport
from tfquiver.proto.tfquiver.v1.types_pb2 import PlacementRule
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.move_reports import (
    MAX_REPORTS,
    MoveReports,
)
from tfquiver.service.coordinator.nodes_mounts_dispatchers.mounts import KEPT_S, MAX_MOUNTS, Mounts
from tfquiver.service.node.coordinator_link.in_turn import InTurn

VERSION = 7
IDS = [numbered_digest(1, str(number)).digest_id for number in range(3 * MAX_REPORTS)]
LAST = IDS[-1]


def test_all_are_told_where_there_is_room() -> None:
    turns = InTurn(3, always=1)
    assert [turns.some(IDS[:3]) for _ in range(2)] == [IDS[:3]] * 2


def test_the_first_are_told_each_time_and_the_others_in_turn() -> None:
    turns = InTurn(3, always=1)
    told = [set(turns.some(IDS[:6])) for _ in range(3)]
    assert all(IDS[0] in some and len(some) == 3 for some in told)
    assert set.union(*told) == set(IDS[:6])
    new = [IDS[0], IDS[9], *IDS[1:5]]
    assert IDS[9] in turns.some(new), "what has never been told comes next"


def test_a_rule_that_was_taken_away_ends_of_more_data_sets_than_are_told_at_once() -> None:
    """Of three nodes each tells of `LAST` once in a while."""
    reports, names = MoveReports(), ["a", "b", "c"]
    turns = {name: InTurn(MAX_REPORTS, MAX_REPORTS // 2) for name in names}
    settled_after = 0
    while not reports.settled(LAST, names, VERSION):
        settled_after += 1
        assert settled_after < 20
        for at, name in enumerate(names):
            first = IDS[at::-1]  # not all in the same order
            keys = turns[name].some([*first, *(one for one in IDS if one not in first)])
            reports.take(name, [MoveReport(digest_id=one, places_version=VERSION) for one in keys], {LAST})
    assert {moves.node_id for moves in reports.of(LAST)} == set(names)
    reports.take("a", [MoveReport(digest_id=IDS[0])], {LAST})
    assert {moves.node_id for moves in reports.of(LAST)} == {"b", "c"}, "it tells of all that it has to tell of"
    reports.take("b", [MoveReport(digest_id=one) for one in IDS[:MAX_REPORTS]])
    assert {moves.node_id for moves in reports.of(LAST)} == {"c"}, "nobody waits for it"


def test_rules_are_carried_out_of_more_data_sets_than_are_told_at_once() -> None:
    w = World()
    for one in IDS:
        w.placed.rules.apply(PlacementSet(digest_id=one, rule=PlacementRule(selector="rack=r1")))
    storing, version = w.membership.storing, w.placed.version
    turns = {name: InTurn(MAX_REPORTS, MAX_REPORTS // 2) for name in storing}

    def told(digest_ids: Sequence[bytes]) -> list[MoveReport]:
        return [MoveReport(digest_id=one, places_version=version) for one in digest_ids]

    for _ in range(2 * len(IDS) // MAX_REPORTS):
        for name in storing:
            w.placed.take(name, told(turns[name].some(IDS)))
    assert all(w.placed.reports.settled(one, storing, version) for one in IDS)
    w.placed.rules.forget(LAST)
    for name in storing:
        w.placed.take(name, told(IDS[:MAX_REPORTS]))
    assert not list(w.placed.reports.of(LAST)), "it has no rule any more"
    assert list(w.placed.reports.of(IDS[-2]))


def test_more_mounts_than_are_told_at_once_are_all_known() -> None:
    clock = ManualClock()
    mounts, turns = Mounts(clock), InTurn(MAX_MOUNTS)
    for _ in range(4):
        mounts.take("n", [MountReport(digest_id=one, mounts=1) for one in turns.some(IDS)])
        clock.advance(5.0)
    assert all(mounts.said([one], "it").startswith("1 mount") for one in IDS)
    left = IDS[:-1]
    while clock.now() < KEPT_S + 30.0:
        mounts.take("n", [MountReport(digest_id=one, mounts=1) for one in turns.some(left)])
        clock.advance(5.0)
    assert not mounts.said([LAST], "it"), "it has been unmounted"
    assert all(mounts.said([one], "it") for one in left)
    mounts.take("n", [MountReport(digest_id=LAST, mounts=1)])
    assert not mounts.said(left, "it"), "these are all"


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=30))
def test_what_a_node_says_again_between_two_looks_changes_nothing(
    said: list[tuple[str, int, int, bool]],
) -> None:
    once, often = MoveReports(), MoveReports()
    last = dict[str, MoveReport]()
    for name, looks, left, moved in said:
        report = MoveReport(digest_id=LAST, places_version=VERSION, idle_looks=looks, to_go_shards=left)
        report.gone_shards = last[name].gone_shards + moved if name in last else 0
        last[name] = report
        once.take(name, [report])
        often.take(name, [report])
        for other, again in last.items():
            if again.idle_looks:
                often.take(other, [again])
        told = [(reports.settled(LAST, last, VERSION), reports.moved(LAST)) for reports in (once, often)]
        assert told[0] == told[1]
