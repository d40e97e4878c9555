"""Which tables have a hash, against looking at each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.digests import numbered_digest
from tfquiver.service.coordinator.resident_shards import table_index
from tfquiver.service.coordinator.resident_shards.residency import Residency
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.service.coordinator.resident_shards.table_index import Joint, TableIndex
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_rows

some_values = st.lists(st.integers(0, 30), max_size=12)
tables = st.lists(st.tuples(st.integers(0, 5), some_values | st.none() | st.booleans()), max_size=16)


@given(tables, st.lists(st.integers(0, 30), max_size=20), st.integers(0, 30), st.integers(0, 10))
@settings(deadline=None)
def test_each_table_is_told_of_what_it_has(
    events: list[tuple[int, list[int] | bool | None]], asked: list[int], most_merged: int, most_indexed: int
) -> None:
    """True: large ones begin to be joined, False: they are, whatever has come and gone meanwhile."""
    joint: Joint | None = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_index, "_MOST_INDEXED", most_indexed)
        patch.setattr(table_index, "_MOST_APART", 0)
        patch.setattr(table_index, "_MOST_MERGED", most_merged)
        index, expected = TableIndex(), dict[bytes, set[int]]()
        for number, values in events:
            name = bytes([number])
            if values is True:
                joint = join() if (join := index.joining()) else joint
            elif values is False:
                if joint is not None:
                    index.join(joint)
                joint = None
            elif values is None:
                index.remove(name)
                expected.pop(name, None)
            else:
                index.add(name, np.sort(np.array(values, np.uint64)))
                expected[name] = set(values)
        told = [(name, its.tolist()) for name, its in index.having(np.array(asked, np.uint64))]
    assert len(told) == len({name for name, _ in told})
    assert dict(told) == {name: sorted(its & set(asked)) for name, its in expected.items() if its & set(asked)}


@pytest.mark.parametrize("most_indexed", [65_536, 10])
def test_a_report_costs_nothing_to_data_sets_that_it_is_not_about(
    monkeypatch: pytest.MonkeyPatch, most_indexed: int
) -> None:
    """`most_indexed`: small ones, and large ones."""
    monkeypatch.setattr(table_index, "_MOST_INDEXED", most_indexed)
    digests = [numbered_digest(50, f"d{number}") for number in range(40)]
    subject, searched = Residency(), list[bytes]()
    for digest in digests:
        subject.open(Table(digest))
    find = Table.find

    def counted(self: Table, values: object) -> object:
        searched.append(self.digest.digest_id)
        return find(self, values)  # type: ignore[arg-type]

    monkeypatch.setattr(Table, "find", counted)
    its = of_rows(digests[7].hashes[:20])
    [(digest_id, shards)] = subject.added("node", its)
    assert (digest_id, sorted(shards.tolist())) == (digests[7].digest_id, list(range(20)))
    [(_, gone)] = subject.removed("node", its)
    assert sorted(gone.tolist()) == list(range(20))
    [(_, again)] = subject.added("node", its)
    assert [len(shards) for _, shards in subject.node_gone("node")] == [len(again)]
    assert set(searched) == {digests[7].digest_id}


def test_data_sets_that_come_and_go_cost_little_more_than_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """To copy the index for each of a thousand held the loop up for many seconds."""
    copied, kept = list[int](), TableIndex._kept

    def counted(self: TableIndex, part: table_index.Part) -> table_index.Part:
        copied.append(len(part[0]))
        return kept(self, part)

    monkeypatch.setattr(TableIndex, "_kept", counted)
    subject, tables, shards = TableIndex(), 256, 20
    for number in range(tables):
        subject.add(number.to_bytes(2, "big"), np.arange(number, number + shards, dtype=np.uint64))
    assert sum(copied) < 10 * tables * shards, "the logarithm of how many there are, for each"
    copied.clear()
    for number in range(tables):
        subject.remove(number.to_bytes(2, "big"))
    assert sum(copied) < 3 * tables * shards
    assert not list(subject.having(np.arange(tables, dtype=np.uint64)))


def test_many_large_tables_are_looked_at_together() -> None:
    index, rng = TableIndex(), np.random.default_rng(1)
    tables = [np.sort(rng.integers(0, 1 << 60, 70_000, np.uint64)) for _ in range(12)]
    for number, values in enumerate(tables):
        index.add(bytes([number]), values)
        if join := index.joining():
            index.join(join())
    assert index.joining() is None
    index.remove(bytes([3]))
    asked = np.concatenate([values[number::20_000] for number, values in enumerate(tables)])
    told = {name: its.tolist() for name, its in index.having(asked)}
    assert told == {
        bytes([number]): values[number::20_000].tolist() for number, values in enumerate(tables) if number != 3
    }


def joined_of_five() -> tuple[TableIndex, list[Prefixes], table_index.Joint]:
    index, rng = TableIndex(), np.random.default_rng(1)
    tables = [np.sort(rng.integers(0, 1 << 60, 70_000, np.uint64)) for _ in range(5)]
    for number, values in enumerate(tables):
        index.add(bytes([number]), values)
    join = index.joining()
    assert join
    return index, tables, join()


def test_tables_that_go_while_they_are_joined_leave_nothing() -> None:
    index, _, made = joined_of_five()
    for number in range(5):
        index.remove(bytes([number]))
    index.join(made)
    assert index._joint is None


def test_where_most_of_what_is_joined_has_gone_it_is_joined_anew() -> None:
    index, tables, made = joined_of_five()
    index.join(made)
    for number in range(2):
        index.remove(bytes([number]))
        assert index.joining() is None
    index.remove(bytes([2]))
    join = index.joining()
    assert join
    index.join(join())
    assert index._joint is not None
    assert len(index._joint[0]) == sum(map(len, tables[3:]))
    assert index.joining() is None
