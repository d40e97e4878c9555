"""What many nodes have told, looked for together: as if each had been looked for when it came."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.digests import digest_of
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.nodes_mounts_dispatchers import heartbeats
from tfquiver.service.coordinator.nodes_mounts_dispatchers.heartbeats import Heartbeats
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.resident_shards.holders import MOST_NAMED
from tfquiver.service.coordinator.resident_shards.residency import Residency, Settled
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_hashes

HASHES = [n.to_bytes(1, "little") * 32 for n in range(8)]
# One has a shard twice; both share some.
DIGESTS = [digest_of([*HASHES[:6], HASHES[0]], "one"), digest_of(HASHES[3:], "another")]
NODES = [f"n{number}" for number in range(4)]
hashes = st.lists(st.sampled_from(HASHES), max_size=4)
Shards, Numbers = npt.NDArray[np.uint32], npt.NDArray[np.int32]
Report = tuple[str, list[bytes], list[bytes]]
reports = st.lists(st.tuples(st.sampled_from(NODES), hashes, hashes), max_size=12)


def followed() -> Residency:
    residency = Residency()
    for digest in DIGESTS:
        residency.open(Table(digest))
    return residency


@given(st.lists(reports, max_size=5))
def test_it_is_as_if_each_had_been_told_at_once(turns: list[list[Report]]) -> None:
    """All that says who holds what, and that changes are told: those of which something is another than before."""
    together, apart, held = followed(), followed(), {node: set[bytes]() for node in NODES}
    for turn in turns:
        before = {digest.digest_id: bytes(together.table(digest.digest_id).resident) for digest in DIGESTS}
        for node, added, removed in turn:
            held[node] = (held[node] | set(added)) - set(removed)
            together.told(node, of_hashes(added), of_hashes(removed))
            apart.added(node, of_hashes(added))
            apart.removed(node, of_hashes(removed))
        changed = {digest_id: {*came.tolist(), *went.tolist()} for digest_id, came, went in together.settle()}
        assert not together.unsettled
        for digest in DIGESTS:
            table, other = together.table(digest.digest_id), apart.table(digest.digest_id)
            assert table.resident == other.resident
            assert (table.resident_shards, table.resident_bytes) == (other.resident_shards, other.resident_bytes)
            now = np.frombuffer(table.resident, np.uint8)
            differ = np.flatnonzero(now != np.frombuffer(before[digest.digest_id], np.uint8))
            assert set(differ.tolist()) <= changed.get(digest.digest_id, set())
            names = together.holders(table, range(digest.num_shards))
            for row, name in zip(digest.hashes, names, strict=True):
                assert (row.tobytes() in held[name]) if name else not any(row.tobytes() in its for its in held.values())


def test_what_very_many_tell_of_one_shard_is_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sets, put = list[int](), Table._set

    def noted(self: Table, shards: Shards, numbers: Numbers) -> Shards:
        sets.append(len(shards))
        return put(self, shards, numbers)

    monkeypatch.setattr(Table, "_set", noted)
    residency, nodes = followed(), [f"n{number}" for number in range(50)]
    for node in nodes:
        residency.told(node, of_hashes(HASHES[:1]), of_hashes([]))
    [(_, came, _)] = residency.settle()
    assert sorted(came.tolist()) == [0, 6] and sets == [2] * (MOST_NAMED + 1)
    table = residency.table(DIGESTS[0].digest_id)
    while nodes:  # whoever goes, another is found as long as there is one
        [holder] = residency.holders(table, [0])
        nodes.remove(holder)
        residency.told(holder, of_hashes([]), of_hashes(HASHES[:1]))
        [(_, _, went)] = residency.settle()
        found_gone = [shard for _, shards in residency.find_out() for shard in shards.tolist()]
        assert bool(len(went) or found_gone) == (not nodes)


class World:
    """Heartbeats of many nodes, with a timer that the test rings."""

    def __init__(self, nodes: int) -> None:
        self.residency, self.settled = followed(), list[Settled]()
        self.timers, self.steps = list[tuple[float, Callable[[], None]]](), 0
        self.heartbeats = Heartbeats(
            Membership(ManualClock(), 10.0), self.residency, lambda *_: None, lambda *_: None, 1000, "this",
            settled=self.settled.append, later=lambda wait_s, call: self.timers.append((wait_s, call)),
            stepwise=self._step,
        )  # fmt: skip
        self._versions = dict[str, int]()
        for number in range(nodes):
            self.tell(f"n{number}", full=True)

    def _step(self, steps: object) -> None:
        self.steps += 1
        for _ in steps:  # type: ignore[attr-defined]
            pass

    def tell(self, node: str, *added: bytes, removed: tuple[bytes, ...] = (), full: bool = False) -> None:
        version = self._versions[node] = self._versions.get(node, 0) + 1
        request = pb2.HeartbeatRequest(incarnation="1")
        request.node.node_id = node
        inventory = pb2.Inventory(full=full, version=version, added=added, removed=removed)
        request.inventory.CopyFrom(inventory)
        assert not self.heartbeats.take(request).resend_inventory

    def resident(self) -> int:
        return self.residency.table(DIGESTS[0].digest_id).resident_shards


def test_few_nodes_are_believed_at_once() -> None:
    world = World(100)
    world.tell("n1", HASHES[1])
    assert world.resident() == 1 and not world.timers


def test_what_many_tell_waits_for_others_a_tenth_of_a_second_at_most() -> None:
    world = World(1100)
    world.tell("n1", HASHES[1])
    world.tell("n2", HASHES[2], removed=(HASHES[1],))
    world.tell("n1", removed=(HASHES[1],))
    assert not world.resident()
    [(wait_s, ring)] = world.timers
    assert wait_s == pytest.approx(0.1)
    ring()
    assert world.resident() == 1 and world.steps == 1
    [(digest_id, came, went)] = world.settled
    assert (digest_id, came.tolist(), went.tolist()) == (DIGESTS[0].digest_id, [2], [])
    world.tell("n3", HASHES[3])
    assert len(world.timers) == 2


def test_what_waits_is_settled_before_its_node_is_gone_or_tells_everything_anew() -> None:
    world = World(1100)
    world.tell("n1", HASHES[1])
    for _ in world.heartbeats.gone("n1"):
        pass
    assert not world.resident() and not world.residency.unsettled
    world.tell("n2", HASHES[2])
    world.tell("n2", HASHES[3], full=True)
    assert world.residency.holders(world.residency.table(DIGESTS[0].digest_id), [2, 3]) == ["", "n2"]
    world.timers[0][1]()
    assert world.resident() == 1


def test_a_fault_in_what_follows_keeps_no_table_behind_and_no_node_from_being_heard() -> None:
    world = World(1100)

    def faulty(settled: Settled) -> None:
        world.settled.append(settled)
        raise KeyError("a fault of ours")

    world.heartbeats._settled = faulty
    world.tell("n1", HASHES[4])  # both data sets have it
    world.tell("n2", HASHES[5], full=True)
    assert len(world.settled) == 2
    for digest in DIGESTS:
        names = world.residency.holders(world.residency.table(digest.digest_id), range(digest.num_shards))
        assert [name for name in names if name] == ["n1", "n2"]


def test_much_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "_MOST_WAITING", 2)
    world = World(1100)
    world.tell("n1", HASHES[1])
    assert not world.resident()
    world.tell("n2", HASHES[2])
    assert world.resident() == 2


def test_a_coordinator_that_stops_settles_nothing_later() -> None:
    world = World(1100)
    world.tell("n1", HASHES[1])
    world.heartbeats.stop()
    world.timers[0][1]()
    assert not world.resident()
