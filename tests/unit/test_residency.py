"""The table of who holds what, against dictionaries of sets."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.digests import digest_of
from tfquiver.service.coordinator.resident_shards import holders, holdings, residency
from tfquiver.service.coordinator.resident_shards import table as tables
from tfquiver.service.coordinator.resident_shards.holdings import Holdings
from tfquiver.service.coordinator.resident_shards.residency import Residency
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.shard_owners_chunks_hash_prefixes import rendezvous
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_hashes, of_rows

HASHES = [n.to_bytes(1, "little") * 32 for n in range(12)]
# Data sets share content; one has a hash twice.
DIGESTS = [digest_of(HASHES[:8], "one"), digest_of([*HASHES[4:], HASHES[4]], "two")]
nodes = st.sampled_from(["a", "b", "c"])
hashes = st.lists(st.sampled_from(HASHES), max_size=6)
Event = tuple[str, str | int, list[bytes]]
events: st.SearchStrategy[list[Event]] = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["added", "removed", "replaced"]), nodes, hashes),
        st.tuples(st.just("gone"), nodes, st.just([])),
        st.tuples(st.sampled_from(["begin", "open", "close"]), st.integers(0, 1), st.just([])),
        st.tuples(st.sampled_from(["find out", "go on"]), st.integers(1, 9), st.just([])),
    ),
    max_size=30,
)


@given(events, st.integers(2, 3))  # two: who had a shard, and who is found to have it
@settings(deadline=None)
def test_residency_follows_what_nodes_tell(events: list[Event], most_named: int) -> None:
    """Also where there are more that hold a shard than are known by name, and who does is found out while they tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holders, "MOST_NAMED", most_named)
        patch.setattr(residency, "_ASKED_AT_ONCE", 1)
        patch.setattr(residency, "_GONE_AT_ONCE", 2)
        patch.setattr(residency, "_DROPPED_AT_ONCE", 1)
        patch.setattr(residency, "_DOUBTED_AT_ONCE", 3)
        patch.setattr(residency, "_ENOUGH", 1)
        follow(events)


def follow(events: list[Event]) -> None:
    subject = Residency()
    finding: Iterator[residency.Change] = iter(())
    going = list[Iterator[residency.Change]]()  # what nodes that told all anew had before
    held: dict[str, set[bytes]] = {"a": set(), "b": set(), "c": set()}
    begun: dict[bytes, tuple[Table, tables.Opening | None]] = {}
    told = {digest.digest_id: bytearray(digest.num_shards) for digest in DIGESTS}
    for kind, who, which in events:
        changes: list[residency.Change] = []
        if kind == "find out" and isinstance(who, int):
            finding = itertools.chain(finding, subject.find_out())
            changes = list(itertools.islice(finding, who))
        elif kind == "go on" and isinstance(who, int):
            changes = list(itertools.islice(itertools.chain(*going), who))
            going = going if len(changes) == who else []
        elif isinstance(who, int):
            digest = DIGESTS[who]
            if kind == "begin" and digest.digest_id not in subject:  # events that follow come before it is open
                made, opening = Table(digest), subject.opening()
                made.enter(opening)
                begun[digest.digest_id] = made, opening
            elif kind == "open" and digest.digest_id not in subject:
                subject.open(*begun.pop(digest.digest_id, (Table(digest), None)))
                told[digest.digest_id] = bytearray(subject.table(digest.digest_id).resident)
            elif kind == "close":
                subject.close(digest.digest_id)
        elif kind == "added":
            changes = subject.added(who, of_hashes(which))
            held[who].update(which)
        elif kind == "removed":
            changes = subject.removed(who, of_hashes(which))
            held[who].difference_update(which)
        elif kind == "replaced":
            changes, goes = subject.replaced(who, of_hashes(which))
            going.append(goes)
            held[who] = set(which)
        else:
            changes = list(subject.node_gone(who))
            held[who] = set()
        hear(subject, told, changes)
        check_all(subject, told, held, bool(going))
    hear(subject, told, list(itertools.chain(*going)))
    hear(subject, told, [*finding, *subject.find_out()])
    assert not subject.has_doubts
    check_all(subject, told, held)


def hear(subject: Residency, told: dict[bytes, bytearray], changes: Sequence[residency.Change]) -> None:
    for digest_id, shards in changes:
        for shard in shards if digest_id in subject else ():
            told[digest_id][shard] = subject.table(digest_id).resident[shard]


def check_all(
    subject: Residency, told: dict[bytes, bytearray], held: dict[str, set[bytes]], more: bool = False
) -> None:
    for digest in DIGESTS:
        if digest.digest_id in subject:
            check(subject, digest.digest_id, held, more)
            assert told[digest.digest_id] == subject.table(digest.digest_id).resident, "a change was not told"


def check(subject: Residency, digest_id: bytes, held: dict[str, set[bytes]], more: bool = False) -> None:
    """`more`: what somebody had before is there yet."""
    table = subject.table(digest_id)
    if subject.has_doubts or more:
        for shard in range(table.digest.num_shards):
            is_held = any(table.digest.shard(shard).hash in names for names in held.values())
            assert table.resident[shard] or not is_held, "what may be held by others is taken for resident"
        return
    only_at = {gone: set(table.only_at(subject.numbers(gone)).tolist()) for gone in ("a", "ab", "abc")}
    for shard in range(table.digest.num_shards):
        holders = {name for name, names in held.items() if table.digest.shard(shard).hash in names}
        assert table.resident[shard] == bool(holders)
        assert subject.holders(table, [shard])[0] in (holders or {""})
        for gone, shards in only_at.items():
            is_only_there = bool(holders) and holders <= set(gone)
            assert (shard in shards) == is_only_there or (is_only_there and table.holders.more[shard])
    resident = np.frombuffer(table.resident, np.uint8) > 0
    assert (table.resident_shards, table.resident_bytes) == (resident.sum(), table.lengths[resident].sum())


@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 30), max_size=8)), max_size=20),
    st.integers(0, 10),
    st.integers(0, 10),
)
def test_an_inventory_is_a_set_whenever_it_is_merged(
    changes: list[tuple[bool, list[int]]], merge_at: int, few: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holdings, "_MERGE_AT", merge_at)
        patch.setattr(holdings, "_FEW", few)
        subject, model = Holdings(), set[int]()
        for add, numbers in changes:
            (subject.add if add else subject.remove)(np.array(numbers, np.uint64))
            model = model | set(numbers) if add else model - set(numbers)
            asked = np.arange(31, dtype=np.uint64)
            assert subject.contains(asked).tolist() == [number in model for number in range(31)]
        assert subject.all().tolist() == sorted(model)


def test_what_a_node_holds_takes_eight_bytes_a_shard_also_where_much_comes_and_goes() -> None:
    """As objects of Python's it took ten times that, and every collection of garbage went through all of them."""
    every = np.arange(60_000, dtype=np.uint64) << np.uint64(32)
    tracemalloc.start()
    try:
        subject = Holdings()
        for at in range(0, 20_000, 10_000):
            subject.add(every[at : at + 10_000])
        whole_bytes = tracemalloc.get_traced_memory()[0]
        subject.remove(every[100:20_000])
        for at in range(20_000, 60_000, 100):  # a little at a time, another each time
            subject.add(every[at : at + 100])
            subject.remove(every[at - 100 : at])
        churned_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert subject.all().tolist() == [*every[:100].tolist(), *every[-100:].tolist()]
    assert whole_bytes < 1.1 * 8 * 20_000
    assert churned_bytes < 4096 * 150


def test_the_owner_is_the_one_that_nodes_compute() -> None:
    table = Table(DIGESTS[0])
    for names in (("a", "b", "c"), ("c", "a"), ("a",)):
        expected = [names[int(n)] for n in rendezvous.owners(DIGESTS[0].hashes, names)]
        assert table.owners(range(8), names) == expected
        assert table.owners([5, 2], names) == [expected[5], expected[2]]
    assert table.owners([0], ()) == [""]


def test_who_holds_a_shard_is_asked_for_only_where_more_had_it_than_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "MOST_NAMED", 2)
    subject, asked = Residency(), 0
    for name in "abc":
        subject.added(name, of_hashes(HASHES[:3] if name == "a" else HASHES[2:4]))
    subject.added("b", of_hashes(HASHES[1:2]))
    subject.open(Table(DIGESTS[0]))
    contains = Holdings.contains

    def counted(self: Holdings, values: Prefixes) -> object:
        nonlocal asked
        asked += 1
        return contains(self, values)

    monkeypatch.setattr(Holdings, "contains", counted)
    table = subject.table(DIGESTS[0].digest_id)

    def evicted(name: str, hash: int) -> list[int]:
        [(_, gone)] = subject.removed(name, of_hashes(HASHES[hash : hash + 1]))
        return list(map(int, gone))

    assert evicted("a", 0) == [0]
    assert evicted("a", 1) == [] and subject.holders(table, [1])[0] == "b"
    assert evicted("c", 3) == [] and evicted("b", 3) == [3]
    assert evicted("a", 2) == [] and subject.holders(table, [2])[0] == "b"
    assert not subject.has_doubts
    assert evicted("b", 2) == [] and subject.has_doubts and asked == 0 and table.resident[2]
    assert not any(len(shards) for _, shards in subject.find_out())
    assert asked > 0 and subject.holders(table, [2])[0] == "c"
    assert evicted("c", 2) == [2], "all were asked: there was no other"


@pytest.mark.parametrize("event", ["removed", "gone", "replaced"])
def test_who_loses_what_it_is_just_being_named_for_is_not_named(monkeypatch: pytest.MonkeyPatch, event: str) -> None:
    """Of a few shards after the others, what it was found to hold before all of them stood in the table for good."""
    monkeypatch.setattr(holders, "MOST_NAMED", 2)
    monkeypatch.setattr(residency, "_DROPPED_AT_ONCE", 1)
    subject = Residency()
    table = Table(DIGESTS[0])
    subject.open(table)
    for name in "abc":
        subject.added(name, of_hashes(HASHES[:3]))
    for name in "ab":
        list(subject.node_gone(name))
    finding = subject.find_out()
    goes: Iterator[residency.Change] = iter(())
    while not (table.holders.count(np.arange(3)) > 1).any():  # c is named for one of them, and a stands in for all
        next(finding)
    if event == "gone":
        list(subject.node_gone("c"))
    elif event == "removed":
        subject.removed("c", of_hashes(HASHES[:3]))
    else:
        goes = subject.replaced("c", of_hashes(HASHES[5:6]))[1]
    list(itertools.chain(goes, finding, subject.find_out()))
    assert not any(table.resident[:3]) and subject.holders(table, range(3)) == [""] * 3
    assert table.resident_shards == (event == "replaced")


def test_what_a_node_of_thousands_had_is_gone_through_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others had it, too, each of them was asked in one turn of the loop: with 5000 nodes it took 18 ms, and up
    to 8 s. Now only where nobody is left of eight, and so much of it in a turn."""
    nodes, shards = 300, 6000
    digest = digest_of([number.to_bytes(4, "little") * 8 for number in range(shards)])
    subject = Residency()
    subject.open(Table(digest))
    asked = most = dropped = most_dropped = 0
    contains, drop, count = Holdings.contains, Table.drop, holders.Holders.count

    def counted(self: Holdings, values: Prefixes) -> object:
        nonlocal asked
        asked += len(values) + residency._ASKING
        return contains(self, values)

    def dropping(self: Table, shards: Any, numbers: Any) -> Any:
        nonlocal dropped
        dropped += len(shards)
        return drop(self, shards, numbers)

    def counting(self: holders.Holders, shards: Any) -> Any:
        nonlocal dropped
        dropped += len(shards)
        return count(self, shards)

    for node in range(nodes):  # each of 200 holds a third, as the others do that have the same number modulo 3
        held = of_rows(digest.hashes[node % 3 :: 3]) if node < 200 else of_rows(digest.hashes[:1])
        subject.added(f"node-{node}", held)
    monkeypatch.setattr(Holdings, "contains", counted)
    monkeypatch.setattr(Table, "drop", dropping)
    monkeypatch.setattr(holders.Holders, "count", counting)

    def through(steps: Iterator[residency.Change]) -> None:
        nonlocal asked, most, dropped, most_dropped
        for _ in steps:
            most, most_dropped = max(most, asked), max(most_dropped, dropped)
            asked = dropped = 0

    for node in range(7 * 3):
        through(subject.node_gone(f"node-{node}"))
    assert most == 0 and not subject.has_doubts, "some are left that are known by name"
    for node in range(7 * 3, 200):
        through(subject.node_gone(f"node-{node}"))
        through(subject.find_out())
    assert 0 < most <= residency._ASKED_AT_ONCE + residency._DOUBTED_AT_ONCE + residency._ASKING
    assert 0 < most_dropped <= 2 * 512, "of each several arrays are looked at: of 4096 it took up to 58 ms"
    table = subject.table(digest.digest_id)
    assert sum(table.resident) == table.resident_shards == 1


def test_what_many_nodes_hold_is_entered_at_once_as_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some shards have the same bytes, some are held by nobody, some by many; and there are other data sets."""
    monkeypatch.setattr(tables, "_ENTERED_AT_ONCE", 100)
    monkeypatch.setattr(holders, "MOST_NAMED", 2)
    rng = np.random.default_rng(3)
    digest = digest_of([bytes([shard % 90]) * 32 for shard in range(100)])
    values = np.unique(Table(digest).prefixes)
    others = rng.integers(0, 2**63, 50, np.uint64)
    held = [rng.permutation(np.concatenate((rng.choice(values, n, replace=False), others))) for n in (0, 5, 40, 70, 20)]
    opening = tables.Opening(list(enumerate(held)))
    at_once, one_by_one = Table(digest), Table(digest)
    at_once.enter(opening)
    for number, its in opening.inventories:
        one_by_one.set(one_by_one.find(its), number)
    every = np.arange(100, dtype=np.uint32)
    assert np.array_equal(at_once.holders.first(every), one_by_one.holders.first(every))
    assert np.array_equal(at_once.holders.count(every), one_by_one.holders.count(every))
    for numbers in itertools.chain(itertools.combinations(range(5), 1), itertools.combinations(range(5), 2)):
        assert np.array_equal(at_once.only_at(numbers), one_by_one.only_at(numbers))
    assert np.array_equal(at_once.holders.more, one_by_one.holders.more)
    assert at_once.resident == one_by_one.resident
    assert at_once.holders.more.any() and (at_once.holders.count(every) == 2).any() and 0 in at_once.resident
    empty = Table(digest)
    empty.enter(tables.Opening([]))
    assert not any(empty.resident)


def test_what_a_node_had_that_tells_all_anew_goes_a_part_at_a_time_but_for_what_it_tells_of_meanwhile() -> None:
    """All of it went in one turn of the loop, and most came back with the node's next messages."""
    digest = digest_of([number.to_bytes(4, "little") * 8 for number in range(3000)], "large")
    subject, values = Residency(), of_rows(digest.hashes)
    subject.open(Table(digest))
    subject.added("a", values)
    table = subject.table(digest.digest_id)
    came, goes = subject.replaced("a", values[:100])
    assert (sum(len(shards) for _, shards in came), table.resident_shards) == (0, 3000)
    subject.added("a", values[100:2000])
    parts = [len(shards) for _, shards in goes]
    assert sum(parts) == 1000
    assert max(parts) <= residency._DROPPED_AT_ONCE
    assert table.resident_shards == 2000
