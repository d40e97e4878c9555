"""Placement rules at the coordinator: what they come to, who is named in leases, where a job would find its data."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.placed_world import CONTENTS, ID, RACKS, World
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import PlacementSet
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run import placed, rules, suggestions
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.suggestions import Held, Machine
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes
from tfquiver.shard_owners_chunks_hash_prefixes.rendezvous import Owners


def test_a_rule_comes_to_the_nodes_that_live_and_match() -> None:
    w = World()
    assert w.placed.places(ID) is None
    w.set(selector="rack=r1")
    assert w.places().members == {"a", "b"}
    before, version = w.places(), w.placed.version
    w.join("e", "r2")
    assert w.places() is before
    assert w.placed.version == version  # nobody has to be told
    w.join("f", "r1")
    assert w.places().members == {"a", "b", "f"}
    assert w.placed.version != version
    w.membership.leave("f", "1")
    w.join("a", "r2")
    assert w.places().members == {"b"}
    w.placed.rules.forget(ID)
    assert w.placed.places(ID) is None


def test_of_what_a_rotation_keeps_only_the_nodes_count() -> None:
    w = World()
    w.set(rack_local=True, replicas=2)
    assert len(w.places().groups) == 2
    assert w.placed.moves(ID)
    version = w.placed.version
    w.mode = types_pb2.CACHE_MODE_COOPERATIVE
    w.placed.settings_set = lambda: 1
    assert (len(w.places().groups), w.places().replicas) == (1, 1)
    assert not w.placed.moves(ID)
    assert w.placed.version != version


def test_until_the_nodes_are_met_no_version_is_told() -> None:
    w, ready = World(), False
    w.placed.ready = lambda: ready
    w.set()
    assert w.placed.version == 0
    changes = w.placed.look()
    ready = True
    assert w.placed.version
    assert w.placed.changes > changes


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"selector": "rack=r9"}, r"selector: no node matches 'rack=r9'; labels of those that live: rack=r1, rack=r2"),
        ({"selector": "rack=("}, r"selector: .* is no value"),
        ({"replicas": 9}, "replicas: 9; there can be 8"),
        ({"replicas": 3, "rack_local": True}, "replicas: 3 are more than the 2 nodes of rack r1"),
        ({"replicas": 3, "stripe": 2}, "replicas: 3 are more than the 2 nodes of the rule"),
        ({"stripe": 10_001}, "stripe: 10001"),
    ],
)
def test_what_cannot_be_is_refused(rule: dict[str, object], said: str) -> None:
    w = World()
    with pytest.raises(errors.InvalidArgumentError, match=said):
        rules.check(types_pb2.PlacementRule(**rule), ID, w.membership.labelled)  # type: ignore[arg-type]


def test_data_sets_that_are_kept_alike_share_what_that_comes_to() -> None:
    w = World()
    for number in range(3):
        rule = types_pb2.PlacementRule(selector="rack=r1", stripe=number // 2)
        w.placed.rules.apply(PlacementSet(digest_id=bytes([number]) * 32, rule=rule))
    first, second, striped = (places for places, _ in w.placed.newest[1].values())
    assert first is second and striped.members < first.members
    w.join("e", "r1")
    first, second, _ = (places for places, _ in w.placed.newest[1].values())
    assert first is second and first.members == {"a", "b", "e"}


def test_what_all_rules_come_to_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are told all of it at once: more than a message holds would leave every node without orders."""
    monkeypatch.setattr(placed, "MAX_NAMES_TOLD", 5)
    w, half = World(), types_pb2.PlacementRule(stripe=2)
    for number in range(2):
        w.placed.check_room(bytes([number]) * 32, half)
        w.placed.rules.apply(PlacementSet(digest_id=bytes([number]) * 32, rule=half))
    w.placed.check_room(bytes(32), half)
    with pytest.raises(errors.ResourceExhaustedError, match=r"stripe: 2 nodes, .* are 6 names"):
        w.placed.check_room(bytes([2]) * 32, half)
    w.placed.check_room(bytes([2]) * 32, types_pb2.PlacementRule(selector="rack=r1"))


def test_rules_outlive_a_restart() -> None:
    w = World()
    w.set(selector="rack in (r1,r2)", stripe=2, replicas=2)
    again = World()
    for record in w.placed.rules.snapshot():
        again.placed.rules.apply(record.placement_set)
    assert again.places() == w.places()
    once = World()
    once.set(selector="rack in (r1,r2)", stripe=2)
    once.placed.rules.apply(PlacementSet(digest_id=ID))
    assert list(once.placed.rules.snapshot()) == []


def test_of_several_holders_the_nearest_is_named() -> None:
    w = World()
    w.set(replicas=4)
    names = ["c"] * len(CONTENTS)
    w.hold("c", CONTENTS)
    assert w.placed.nearest(ID, CONTENTS, names, "a") == names
    w.hold("b", CONTENTS[:10])
    assert w.placed.nearest(ID, CONTENTS, names, "a") == ["b"] * 10 + ["c"] * 20
    w.hold("a", CONTENTS[:5])
    assert w.placed.nearest(ID, CONTENTS, names, "a") == ["a"] * 5 + ["b"] * 5 + ["c"] * 20
    assert w.placed.nearest(ID, CONTENTS, names, "gateway") == names


def test_with_racks_readers_are_sent_to_the_owner_in_theirs() -> None:
    w = World()
    w.set(rack_local=True)
    w.hold("a", CONTENTS)
    held, none = ["a"] * len(CONTENTS), [""] * len(CONTENTS)
    for reader, its in (("gateway", {"c", "d"}), ("b", {"a", "b"})):
        assert set(w.placed.nearest(ID, CONTENTS, held, reader)) == its
        assert w.placed.missing(ID, CONTENTS, reader) == w.placed.nearest(ID, CONTENTS, held, reader)
        assert w.placed.nearest(ID, CONTENTS, none, reader) == none
    assert w.placed.nearest(ID, CONTENTS, held, "a stranger") == held
    assert set(w.placed.missing(ID, CONTENTS, "a stranger") or ()) == set(RACKS)


def test_it_is_settled_when_every_node_has_carried_out_this_version() -> None:
    w = World()
    w.set()
    reports = w.placed.reports

    def tell(name: str, version: int, left: int = 0) -> None:
        reports.take(name, [pb2.MoveReport(digest_id=ID, places_version=version, to_come_shards=left)])

    for name in RACKS:
        assert not reports.settled(ID, RACKS, 5)
        tell(name, 5)
    assert reports.settled(ID, RACKS, 5)
    assert not reports.settled(ID, RACKS, 6)
    tell("b", 5, left=1)
    assert not reports.settled(ID, RACKS, 5)
    assert [one.node_id for one in reports.of(ID)] == list(RACKS)
    reports.gone("b")
    assert [one.node_id for one in reports.of(ID)] == ["a", "c", "d"]


def held(by_node: dict[str, int], places: Places | None = None, size_bytes: int = 100) -> Held:
    """As if no shard were held twice."""
    by_rack: dict[str, int] = {}
    for name, its in by_node.items():
        by_rack[RACKS[name]] = by_rack.get(RACKS[name], 0) + its
    return Held(size_bytes, sum(by_node.values()), by_node, by_rack, RACKS, places)


def machines(*names: str) -> list[Machine]:
    nodes = {name: (f"host-{name}", {"rack": rack}) for name, rack in RACKS.items()}
    return suggestions.machines([(name, {"rack": "r2"} if name == "bare" else {}) for name in names], nodes)


def test_a_job_goes_to_the_node_then_to_the_rack_then_elsewhere() -> None:
    scores = suggestions.scores(machines("d", "bare", "far", "b", "host-a", "c"), held({"c": 100}))
    assert [one.machine.name for one in scores] == ["c", "d", "bare", "far", "b", "host-a"]
    assert [round(one.score, 2) for one in scores] == [1.0, 0.9, 0.9, 0.7, 0.7, 0.7]
    assert [one.machine.node_id for one in scores] == ["c", "d", "", "", "b", "a"]
    assert "100 B on the node itself" in scores[0].reason
    assert "100 B in its rack r2" in scores[1].reason


def test_what_is_cached_nowhere_counts_where_it_is_to_be_kept() -> None:
    places = Places([("", ["a", "b"])])
    cold = suggestions.scores(machines("c", "b"), held({}, places))
    assert [one.machine.name for one in cold] == ["b", "c"]
    assert (cold[0].planned_bytes, cold[1].planned_bytes) == (100, 0)
    assert cold[0].missing_bytes == 100
    assert all(one.score == 0 for one in suggestions.scores(machines("a", "b"), held({})))
    assert suggestions.scores(machines("a"), held({}, size_bytes=0))[0].score == 0


@given(st.dictionaries(st.sampled_from(sorted(RACKS)), st.integers(0, 25), max_size=4), st.booleans())
def test_scores_lie_between_nothing_and_all_and_their_bytes_add_up(by_node: dict[str, int], planned: bool) -> None:
    places = Places([("r1", ["a", "b"]), ("r2", ["c", "d"])], 2) if planned else None
    found = suggestions.scores(machines("a", "b", "c", "d", "bare", "far"), held(by_node, places))
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for one in found:
        assert 0 <= one.score <= 1
        assert one.node_bytes + one.rack_bytes + one.elsewhere_bytes + one.missing_bytes == 100
        assert 0 <= one.planned_bytes <= one.missing_bytes
        assert one.reason


def test_bits_are_those_that_nodes_read() -> None:
    from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.placed import held_bits
    from tfquiver.service.node.moving_shards.moves import _masks

    masks = np.random.default_rng(3).random((3, 77)) < 0.5
    bits = held_bits(masks)
    assert (_masks(bits, 77) == masks).all()
    with pytest.raises(errors.ProtocolError, match="9 bytes of bits for 77 shards"):
        _masks([bits[0], bits[1][:-1]], 77)


def test_of_many_striped_data_sets_only_those_of_a_node_that_goes_are_drawn_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whenever a node came or went ten thousand took most of a second of the loop."""
    subject, drawn, several = rules.Rules(), list[str](), Owners.several
    ids = [number.to_bytes(32, "little") for number in range(300)]
    for digest_id in ids:
        subject.apply(PlacementSet(digest_id=digest_id, rule=types_pb2.PlacementRule(stripe=3)))

    def counted(self: Owners, prefixes: Prefixes, copies: int) -> list[tuple[str, ...]]:
        drawn.append("")
        return several(self, prefixes, copies)

    monkeypatch.setattr(Owners, "several", counted)
    nodes = dict[str, dict[str, str]]({f"n{number}": {} for number in range(30)})
    first = {digest_id: subject.groups(digest_id, nodes) for digest_id in ids}
    assert len(drawn) == 300
    drawn.clear()
    without = {name: its for name, its in nodes.items() if name != "n7"}
    second = {digest_id: subject.groups(digest_id, without) for digest_id in ids}
    had_it = [digest_id for digest_id in ids if "n7" in first[digest_id][0][1]]
    assert 0 < len(drawn) == len(had_it) < 100
    assert all(second[digest_id] is first[digest_id] for digest_id in ids if digest_id not in had_it)
    drawn.clear()
    again = dict(nodes)
    assert all(Places(subject.groups(digest_id, again)) == Places(first[digest_id]) for digest_id in ids)
    assert len(drawn) == len(had_it)
    subject.groups(ids[0], again)
    assert len(drawn) == len(had_it)


def test_of_many_rules_a_node_that_joins_has_the_places_drawn_step_by_step() -> None:
    """Until all are, nobody is told that something is carried out, and who asks is told what was so before."""
    w = World()
    steps, told = list[Iterator[None]](), list[int]()
    w.placed.stepwise, w.placed.on_looked = steps.append, lambda: told.append(w.placed.version)
    for number in range(placed._LOOKED_AT_ONCE + 1):
        rule = types_pb2.PlacementRule(stripe=2)
        w.placed.rules.apply(PlacementSet(digest_id=number.to_bytes(32, "big"), rule=rule))
    assert (w.placed.version, w.placed.newest, len(steps)) == (0, (0, {}), 1)
    deque(steps.pop(), maxlen=0)
    before = version, sets = w.placed.newest
    assert told == [version] and version and len(sets) == placed._LOOKED_AT_ONCE + 1
    w.join("e", "r1")
    for _ in range(3):  # who asks again does not begin again
        assert (w.placed.version, w.placed.newest) == (0, before)
    (first,) = steps
    next(first)
    w.membership.leave("a", "1")
    deque(first, maxlen=0)
    version, sets = w.placed.newest
    assert told[1:] == [version] == [w.placed.version] and version != before[0]
    assert all(places.members <= {"b", "c", "d", "e"} for places, _ in sets.values())
    assert any("e" in places.members for places, _ in sets.values())


def test_of_a_few_rules_what_they_come_to_is_known_at_once() -> None:
    w = World()
    w.placed.stepwise = lambda steps: pytest.fail("not at once")
    w.set(stripe=2)
    assert w.placed.newest == (w.placed.version, {ID: (w.places(), True)})
