"""What a node takes over, from whom, and what it may give up; and what it knows of placements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.digests import numbered_digest
from tests.support.steps import steps
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.moving_shards import move_plan
from tfquiver.service.node.placing_at_owners_and_writing.known_places import KeptSet, KnownPlaces
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_rows

DIGEST = numbered_digest(40)
CONTENTS = of_rows(DIGEST.hashes)
NODES = ["a", "b", "c", "d"]
groups = st.one_of(
    st.lists(st.sampled_from(NODES), min_size=1, unique=True).map(lambda names: [("", names)]),
    st.just([("r1", ["a", "b"]), ("r2", ["c", "d"])]),
)


@pytest.mark.slow
@given(groups, st.integers(1, 3), st.lists(st.sets(st.integers(0, 39)), min_size=4, max_size=4), st.data())
@settings(deadline=None, max_examples=60)
def test_from_any_state_nodes_come_to_where_all_should_be_and_lose_nothing(
    groups: list[tuple[str, list[str]]], replicas: int, held: list[set[int]], data: st.DataObject
) -> None:
    """Nodes act in any order, each on what all of them hold at that time, some dying and losing everything."""
    places, holds = Places(groups, replicas), dict(zip(NODES, held, strict=True))
    for _ in range(40):
        name = data.draw(st.sampled_from(NODES))
        there = set().union(*holds.values())
        _act(places, holds, name)
        assert set().union(*holds.values()) == there, "a shard was lost"
    for _ in range(2 * len(NODES)):
        for name in NODES:
            _act(places, holds, name)
    there = set().union(*holds.values())
    for shard in there:
        home = places.home_owners(CONTENTS[shard : shard + 1])[0]
        owners = set(places.all(CONTENTS[shard : shard + 1])[0])
        assert all(shard in holds[name] for name in home)
        assert all(name in owners for name in NODES if shard in holds[name])


def _act(places: Places, holds: dict[str, set[int]], name: str) -> None:
    here = np.sort(CONTENTS[sorted(holds[name])])
    plan = move_plan.OwnPart(places, CONTENTS, name).plan(here)
    assert not set(plan.lacking.tolist()) & holds[name]
    assert set(plan.extra.tolist()) <= holds[name]

    def masks(shards: move_plan.Shards, names: list[str]) -> dict[str, np.ndarray]:
        return {other: np.array([int(s) in holds[other] for s in shards], np.bool_) for other in names}

    others = masks(plan.lacking, [other for other in NODES if other != name])
    may = move_plan.may_come_from(places, CONTENTS[plan.lacking], name, others)
    sources = move_plan.sources(may, {"a"}, 1)
    for shard, source in zip(plan.lacking.tolist(), sources, strict=True):
        if source:
            assert shard in holds[source]
            holds[name].add(shard)
    owners = places.home_owners(CONTENTS[plan.extra])
    for at in move_plan.spare(owners, masks(plan.extra, sorted(places.members))):
        holds[name].discard(int(plan.extra[at]))


def test_those_that_have_it_take_turns_and_those_that_are_near_come_first() -> None:
    both, one = np.ones(6, np.bool_), np.array([True, False] * 3)
    assert move_plan.sources({"x": both, "y": both}, set(), 0) == ["x", "y"] * 3
    assert move_plan.sources({"x": both, "y": one}, {"y"}, 0) == ["y", "x"] * 3
    assert move_plan.sources({"x": ~both, "y": one}, {"x"}, 0) == ["y", ""] * 3
    assert move_plan.sources({}, set(), 0) == []


def test_what_is_asked_of_each_of_a_thousand_nodes_is_not_worked_out_for_each() -> None:
    """Where the shards' homes are, and who gives each: the loop waits for both."""
    contents, found = np.arange(500, dtype=np.uint64), []
    for count in (10, 1000):
        names = [f"n{number:04}" for number in range(count)]
        places = Places([(f"r{rack}", names[rack::5]) for rack in range(5)])
        holders = {name: contents % 7 == number % 7 for number, name in enumerate(names)}

        def come(places: Places = places, holders: Mapping[str, np.ndarray] = holders) -> list[str]:
            return move_plan.sources(move_plan.may_come_from(places, contents, "n0000", holders), {"n0001"}, 1)

        assert any(come())
        found.append(steps(come))
    assert found[1] - found[0] < 50 * 1000, "a few for each node, not some for each of its shards"


def test_whether_it_owns_them_is_known_of_many_shards_at_once() -> None:
    known, racks = KnownPlaces("a"), {"r1": ["a", "b"], "r2": ["c"]}
    assert known.use(1, [_told(DIGEST.digest_id, racks, 2), _told(bytes(32), {"": ["c"]})])
    assert not known.owned(CONTENTS).any(), "its digest is not here yet"
    known.has(DIGEST)
    nobodys = np.array([1, 2], np.uint64)
    assert known.owned(np.concatenate((CONTENTS, nobodys))).tolist() == [True] * 40 + [False] * 2
    assert known.use(2, [_told(DIGEST.digest_id, {"": ["a", "b"]})])
    owners = known.sets[DIGEST.digest_id].places.first(CONTENTS)
    assert known.owned(CONTENTS).tolist() == [owner == "a" for owner in owners]
    few, many = (steps(lambda count=count: known.owned(CONTENTS[:count])) for count in (5, 40))
    assert few == many


def test_nobody_gives_up_what_has_no_owners() -> None:
    assert move_plan.spare([()], {"a": np.ones(1, np.bool_)}) == []
    assert move_plan.spare([("a", "b")], {"a": np.ones(1, np.bool_)}) == []


def _told(digest_id: bytes, groups: dict[str, list[str]], replicas: int = 1) -> pb.DatasetPlaces:
    told = pb.DatasetPlaces(digest_id=digest_id, places=types_pb2.Places(replicas=replicas), moves=True)
    for rack, names in groups.items():
        told.places.groups.add(rack=rack, node_ids=names)
    return told


def test_what_a_node_knows() -> None:
    racks = {"a": "r1", "b": "r1", "c": "r2", "d": ""}
    members = [types_pb2.NodeInfo(node_id=name, labels={"rack": rack} if rack else {}) for name, rack in racks.items()]
    known = KnownPlaces("a", lambda: members)
    digest_id, hash = DIGEST.digest_id, DIGEST.hashes[0].tobytes()
    assert known.of(digest_id) is None
    assert known.before_store(digest_id, hash) == ""
    assert known.use(7, [_told(digest_id, {"r1": ["a", "b"], "r2": ["c"]}, 2)])
    assert not known.use(7, [])
    assert not known.use(0, [])  # a coordinator that does not know the nodes yet
    places = known.of(digest_id)
    assert places is not None
    assert known.holding(hash) == []  # its digest is not here yet
    known.has(DIGEST)
    assert known.holding(hash) == [places]
    assert known.holding(bytes(32)) == []
    (first,) = places.first(CONTENTS[:1])
    assert known.before_store(digest_id, hash) == ("" if first == "a" else first)
    assert sorted(known.others(digest_id, hash, "b")) == ["c"]
    assert known.others(digest_id, hash, "")[0] == "b"  # of its own rack
    assert [known.is_far(name) for name in ("a", "b", "c", "d", "nobody")] == [False, False, True, False, False]
    assert known.quotas(digest_id, {"a": 1, "z": 2}) == {"a": 1}
    assert known.is_moving(digest_id)
    kept = known.sets[digest_id]
    assert not known.has_moved(digest_id, KeptSet(Places([("", ["a"])]), True)), "it is kept otherwise by now"
    assert known.has_moved(digest_id, kept)
    assert not known.has_moved(digest_id, kept)
    assert not known.is_moving(digest_id)
    sets = known.sets
    assert known.use(8, [_told(digest_id, {"r1": ["a", "b"], "r2": ["c"]}, 2)])
    assert known.sets is sets
    assert not known.is_moving(digest_id)
    assert known.use(9, [_told(digest_id, {"": ["a"]})])
    assert known.is_moving(digest_id)
    assert known.use(10, [])
    assert not known.is_moving(digest_id)
    assert not known.has_moved(digest_id, kept)
    assert known.holding(hash) == []
    assert known.quotas(digest_id, {"z": 2}) == {"z": 2}


def test_places_of_one_may_be_those_of_another() -> None:
    told = [pb.DatasetPlaces(digest_id=bytes([number]) * 32, moves=True) for number in range(3)]
    told[0].places.groups.add(node_ids=["a"])
    told[1].places.groups.add(node_ids=["b"])
    told[2].same_as = 2
    known = KnownPlaces("a")
    assert known.use(1, told)
    assert [sorted(kept.places.members) for kept in known.sets.values()] == [["a"], ["b"], ["b"]]
