"""Which nodes own a shard: racks, replicas, and what stays when nodes come and go."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfquiver.shard_owners_chunks_hash_prefixes import rendezvous
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places, Regrouped, chosen, grouped, striped
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes

names = st.lists(st.text("abcdefghij", min_size=1, max_size=4), min_size=1, max_size=9, unique=True)
SHARDS = 2000


def shards(seed: int, count: int = SHARDS) -> Prefixes:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


def hashes(values: Prefixes) -> np.ndarray:
    rows = np.zeros((len(values), 32), np.uint8)
    rows[:, :8] = values.astype("<u8").reshape(-1, 1).view(np.uint8)
    return rows


@given(names, st.integers(1, 4), st.integers(0, 1000))
@settings(deadline=None)
def test_each_shard_has_its_replicas_the_first_as_without_a_rule(names: list[str], replicas: int, seed: int) -> None:
    some = shards(seed, 50)
    places = Places([("", names)], replicas)
    owners = places.home_owners(some)
    assert [its[0] for its in owners] == [names[at] for at in rendezvous.owners(hashes(some), names)]
    assert places.first(some) == [its[0] for its in owners] == places.keepers(some, "any rack")
    for its in owners:
        assert len(set(its)) == len(its) == min(replicas, len(names))
    for name in [*names, "nobody"]:
        assert places.owned(some, name).tolist() == [name in its for its in owners]
    assert places.all(some) == [list(its) for its in owners]


@given(names, st.integers(1, 3), st.integers(0, 1000), st.data())
@settings(deadline=None)
def test_when_a_node_goes_only_its_shards_get_another_owner(
    names: list[str], replicas: int, seed: int, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(names))
    before = Places([("", names)], replicas).home_owners(shards(seed, 100))
    after = Places([("", [name for name in names if name != gone])], replicas).home_owners(shards(seed, 100))
    for old, new in zip(before, after, strict=True):
        left = [name for name in old if name != gone]
        assert list(new[: len(left)]) == left


@pytest.mark.parametrize("nodes", [1, 2, 3, 8])
def test_one_node_more_moves_about_its_part(nodes: int) -> None:
    some, old = shards(7, 20_000), [f"node-{n}" for n in range(nodes)]
    before, after = Places([("", old)]).first(some), Places([("", [*old, "new"])]).first(some)
    moved = [a for b, a in zip(before, after, strict=True) if a != b]
    assert set(moved) == {"new"}
    assert len(moved) / len(some) == pytest.approx(1 / (nodes + 1), rel=0.1)


@given(names, st.integers(1, 9), st.integers(0, 2**64 - 1), st.data())
@settings(deadline=None)
def test_the_chosen_nodes_stay_when_others_come_and_go(
    names: list[str], stripe: int, of: int, data: st.DataObject
) -> None:
    nodes: dict[str, dict[str, str]] = {name: {} for name in names}
    ((_, before),) = chosen(nodes, names, np.uint64(of), stripe)
    assert len(before) == min(stripe, len(names))
    gone = data.draw(st.sampled_from(names))
    if len(names) > 1:
        left = [name for name in names if name != gone]
        ((_, after),) = chosen(nodes, left, np.uint64(of), stripe)
        assert set(before) - {gone} <= set(after)
        assert len(set(after) - set(before)) <= 1


def test_data_sets_are_spread_over_the_nodes() -> None:
    nodes: dict[str, dict[str, str]] = {f"node-{n}": {} for n in range(8)}
    counts = dict.fromkeys(nodes, 0)
    for of in shards(3, 2000):
        ((_, found),) = chosen(nodes, nodes, of, 2)
        for name in found:
            counts[name] += 1
    assert min(counts.values()) > 0.8 * 500
    assert max(counts.values()) < 1.2 * 500


def test_with_racks_each_has_its_owners_and_one_is_the_home() -> None:
    nodes = {f"{rack}{n}": {"rack": rack} for rack in ("r1", "r2", "r3") for n in range(3)}
    places = Places(chosen(nodes, nodes, np.uint64(5), 2, "rack"), 2)
    assert [rack for rack, _ in places.groups] == ["r1", "r2", "r3"]
    assert len(places.members) == 6
    some = shards(11)
    homes = [its[0][:2] for its in places.home_owners(some)]
    for rack in ("r1", "r2", "r3"):
        assert homes.count(rack) / len(some) == pytest.approx(1 / 3, rel=0.15)
        assert all(name.startswith(rack) for name in places.keepers(some, rack))
    assert places.first(some) == places.keepers(some, "r9") == [its[0] for its in places.home_owners(some)]
    for owners, home in zip(places.all(some[:50]), homes, strict=False):
        assert owners[0].startswith(home)
        assert sorted(name[:2] for name in owners) == ["r1", "r1", "r2", "r2", "r3", "r3"]
    for name in sorted(places.members):
        assert places.home(some, name).tolist() == [home == name[:2] for home in homes]
        assert places.beside(name) == tuple(sorted(other for other in places.members if other[:2] == name[:2]))
    assert places.flat.first(some) == Places([("", sorted(places.members))]).first(some)


def test_without_nodes_nobody_keeps_anything() -> None:
    some = shards(1, 3)
    places = Places([])
    assert places.first(some) == places.keepers(some, "r1") == ["", "", ""]
    assert places.home_owners(some) == [(), (), ()]
    assert places.all(some) == [[], [], []]
    assert not places.owned(some, "a").any()


racks = st.dictionaries(st.sampled_from([f"n{number}" for number in range(12)]), st.sampled_from(["", "a", "b"]))


@given(st.lists(racks, min_size=2, max_size=5), st.integers(1, 4), st.integers(0, 2**64 - 1))
@settings(deadline=None)
def test_what_is_striped_anew_is_as_if_it_never_was(nodes: list[dict[str, str]], stripe: int, of: int) -> None:
    groupings = [grouped({name: {"rack": rack} for name, rack in now.items()}, now, "rack") for now in nodes]
    groups = striped(groupings[0], np.uint64(of), stripe)
    for before, now in itertools.pairwise(groupings):
        again = Regrouped(before, now).striped(groups, np.uint64(of), stripe)
        assert Places(again) == Places(striped(now, np.uint64(of), stripe))
        groups = again
