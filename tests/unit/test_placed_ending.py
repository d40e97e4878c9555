"""Placement rules that are taken away, or ask for less: what they leave is given back."""

from __future__ import annotations

import pytest

from tests.support.placed_world import ID, RACKS, World, moved
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import PlacementSet


def test_copies_are_given_up_before_nothing_is_said_of_them_any_more() -> None:
    w = World()
    w.set(replicas=2)
    w.placed.rules.apply(PlacementSet(digest_id=ID))
    assert (w.places().members, w.places().replicas) == (set(RACKS), 1)
    version = w.placed.version
    for name in RACKS:
        assert not w.placed.take(name, [moved(version, 5, idle_looks=0)])
    for name in ("a", "b", "c"):
        assert not w.placed.take(name, [moved(version, 0)]), "the last one has something to give up"
    assert not w.placed.take("d", [moved(version - 1, 0)]), "by another version"
    assert w.placed.take("d", [moved(version, 0)])
    assert w.placed.places(ID) is None
    assert w.placed.version != version, "nodes are told"


def test_a_rule_that_is_taken_away_twice_is_still_to_be_carried_out() -> None:
    w = World()
    w.set(replicas=2)
    w.placed.rules.apply(PlacementSet(digest_id=ID))
    w.placed.rules.apply(PlacementSet(digest_id=ID))
    assert ID in w.placed.rules.ending


def test_a_rule_that_ends_does_so_also_after_a_snapshot_and_a_restart() -> None:
    w, after = World(), World()
    w.set(rack_local=True)
    w.placed.rules.apply(PlacementSet(digest_id=ID))
    for record in w.placed.rules.snapshot():
        after.placed.rules.apply(record.placement_set)
    assert (after.places().members, after.places().replicas) == (set(RACKS), 1)
    version = after.placed.version
    assert any(after.placed.take(name, [moved(version, 0)]) for name in RACKS)
    assert after.placed.places(ID) is None, "it is no rule for good"
    assert not list(after.placed.rules.snapshot())


def test_a_rule_that_ends_is_not_kept_over_a_new_one() -> None:
    w = World()
    w.set(rack_local=True)
    w.placed.rules.apply(PlacementSet(digest_id=ID))
    w.set(selector="rack=r1")
    version = w.placed.version
    for name in RACKS:
        assert not w.placed.take(name, [moved(version, 0)])
    assert w.places().members == {"a", "b"}
    w.placed.rules.apply(PlacementSet(digest_id=ID))
    assert w.placed.places(ID) is None, "each shard is kept once already"


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("between", [1, 2])
def test_copies_that_two_rules_after_one_another_do_not_ask_for_are_still_given_back(
    between: int, restarted: bool
) -> None:
    w = World()
    w.set(rack_local=True)
    for replicas in range(between, 0, -1):
        w.set(replicas=replicas)
    if restarted:
        before, w = w, World()
        for record in before.placed.rules.snapshot():
            w.placed.rules.apply(record.placement_set)
        assert w.placed.rules.find(ID) == types_pb2.PlacementRule(replicas=1)
    w.placed.rules.apply(PlacementSet(digest_id=ID))
    assert ID in w.placed.rules.ending
    version = w.placed.version
    assert any(w.placed.take(name, [moved(version, 0)]) for name in RACKS)
    assert w.placed.places(ID) is None


def test_a_rule_that_is_carried_out_leaves_no_copies_to_be_given_back() -> None:
    w = World()
    w.set(replicas=2)
    w.set(replicas=1)
    version = w.placed.version
    for name in RACKS:
        w.placed.take(name, [moved(version, 0)])
    assert len(list(w.placed.rules.snapshot())) == 1
    w.placed.rules.apply(PlacementSet(digest_id=ID))
    assert w.placed.places(ID) is None


def test_a_rule_ends_at_once_where_nothing_moves() -> None:
    w = World()
    w.set(replicas=2)
    w.mode = types_pb2.CACHE_MODE_LRU
    w.placed.rules.apply(PlacementSet(digest_id=ID))
    w.placed.look()
    assert w.placed.places(ID) is None
