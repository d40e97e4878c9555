"""What is known of recipes and builds survives a restart, with a snapshot between or without; nonsense is refused."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.materializing.derivation import Derivation
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.proto.tfquiver.v1.derived_datasets_pb2 import DerivedCost, DerivedRow
from tfquiver.service.coordinator.derived_datasets import build as builds
from tfquiver.service.coordinator.derived_datasets import costs
from tfquiver.service.coordinator.derived_datasets import recipes as recipes_room
from tfquiver.service.coordinator.derived_datasets.recipes import Recipe, Recipes, build_id, recipe_id

SOURCE = b"s" * 32


def row(number: int, *parts: tuple[int, int]) -> DerivedRow:
    """`parts`: (length_bytes, records)."""
    made = DerivedRow(row=number)
    for index, (length_bytes, records) in enumerate(parts):
        made.parts.add(hash=bytes([number, index]) * 16, length_bytes=length_bytes, records=records)
    return made


def begun(
    recipes: Recipes, key: bytes = b"r" * 32, rows: int = 3, draw: int = 0, now_s: float = 0.0, domain: str = "ann"
) -> Recipe:
    return recipes.begin(key, SOURCE, "name", domain, rows, draw, now_s, lambda digest_id: False, 1000 + draw)


def restored(records: Iterable[CommitRecord]) -> Recipes:
    again = Recipes(lambda record: None)
    for record in records:
        again.apply(CommitRecord.FromString(record.SerializeToString()))
    return again


def known(recipes: Recipes, rows: int) -> object:
    one = recipes.get(b"r" * 32)
    if one is None:
        return None
    if not one.digest_id:
        recipes.sized(one, rows)
    made = sorted(message.SerializeToString() for message in one.build.made().messages()) if one.build else None
    return one.draw, one.uses, one.digest_id, one.old_since_ms, one.domain, one.name, made, one.cost


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["row", "made", "use", "anew"]), st.integers(0, 2)), max_size=25))
def test_the_log_and_its_snapshot_bring_back_what_was_known(steps: list[tuple[str, int]]) -> None:
    journal: list[CommitRecord] = []
    recipes = Recipes(journal.append)
    one = begun(recipes)
    for number, (what, value) in enumerate(steps):
        if what == "row" and not one.digest_id:
            recipes.report(one, [row(value, (100, 2))], DerivedCost(rows=1, cpu_us=number + 1, made_bytes=100))
        elif what == "made" and one.build is not None and one.build.is_whole:
            recipes.made(one, bytes([number]) * 32)
        elif what == "use":
            recipes.use(one, f"use {value}")
        elif what == "anew" and one.digest_id:
            one = begun(recipes, draw=one.draw + 1)
    now = known(recipes, 3)
    assert known(restored(journal), 3) == now
    assert known(restored(recipes.still()()), 3) == now
    assert recipes.of_build(one.build_id, "ann") is one


def test_only_the_domain_that_computes_finds_a_build() -> None:
    recipes = Recipes(lambda record: None)
    one = begun(recipes)
    with pytest.raises(errors.NotFoundError) as other:
        recipes.of_build(one.build_id, "bob")
    with pytest.raises(errors.NotFoundError) as unknown:
        recipes.of_build(b"?" * 32, "bob")
    assert str(other.value) == str(unknown.value)
    assert len({recipe_id(domain, SOURCE, b"f" * 32) for domain in ("", "ann", "bob")}) == 3
    assert build_id(b"r" * 32, 0) != build_id(b"r" * 32, 1)


def test_what_computing_took_is_counted_once_and_found_by_what_it_has_become() -> None:
    recipes = Recipes(lambda record: None)
    one = begun(recipes)
    cost = DerivedCost(rows=2, cpu_us=100, read_us=10, busy_us=60, input_bytes=50, made_bytes=200)
    recipes.report(one, [row(0, (100, 2)), row(1, (100, 2))], cost)
    recipes.report(one, [row(0, (100, 2)), row(1, (100, 2))], cost)  # a reply was lost
    recipes.report(one, [row(1, (100, 2)), row(2, (100, 2))], cost)  # some was done by others, too
    assert one.cost == cost
    assert recipes.cost_of(b"d" * 32) is None
    recipes.made(one, b"d" * 32)
    assert recipes.cost_of(b"d" * 32) == cost
    anew = begun(recipes, draw=1)
    assert recipes.cost_of(b"d" * 32) is None
    assert anew.cost == DerivedCost()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (DerivedCost(rows=3), "cost.rows: 3; the report has 2"),
        (DerivedCost(rows=2, cpu_us=5, read_us=6), "cost: 5 us, of these 6 to read"),
        (DerivedCost(rows=2, cpu_us=1 << 63), "cannot be"),
        (DerivedCost(rows=2, busy_us=1 << 63), "cannot be"),
        (DerivedCost(rows=2, made_bytes=1 << 63), "bytes cannot be"),
    ],
)
def test_costs_that_cannot_be_are_refused(bad: DerivedCost, words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words):
        costs.check(bad, 2)
    assert costs.added(DerivedCost(cpu_us=(1 << 50) - 1), DerivedCost(cpu_us=1 << 50)).cpu_us == 1 << 50


def test_a_use_is_counted_once() -> None:
    recipes = Recipes(lambda record: None)
    one = begun(recipes)
    for use_id in ("a", "a", "b"):
        recipes.use(one, use_id)
    assert one.uses == 2


def test_builds_are_bounded_and_those_that_nobody_is_at_make_room() -> None:
    recipes = Recipes(lambda record: None)
    for number in range(recipes_room.MOST_BUILDS):
        begun(recipes, bytes([number]) * 32, domain=f"team {number // 8}")
    with pytest.raises(errors.ResourceExhaustedError, match="64"):
        begun(recipes, b"x" * 32, now_s=10.0)
    begun(recipes, b"x" * 32, now_s=1e5)
    with pytest.raises(errors.ResourceExhaustedError):
        begun(Recipes(lambda record: None), rows=recipes_room.MOST_ROWS + 1)


def test_no_name_takes_all_the_room_for_builds() -> None:
    recipes = Recipes(lambda record: None)
    for number in range(recipes_room.MOST_BUILDS_OF_ONE):
        begun(recipes, bytes([number]) * 32)
    with pytest.raises(errors.ResourceExhaustedError, match="ann has 16"):
        begun(recipes, b"x" * 32)
    begun(recipes, b"x" * 32, domain="bob")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (row(7, (100, 2)), "has 2 shards"),
        (row(0), "0 parts"),
        (row(0, (100, 3)), "3 records, where that shard of the input has 2"),
        (row(0, (31, 2)), "cannot be 2 records"),
        (row(0, (100, 0)), "cannot be 0 records"),
        (DerivedRow(row=0, parts=[{"hash": b"short", "length_bytes": 100, "records": 2}]), "5 bytes"),
    ],
)
def test_what_a_row_cannot_have_become_is_refused(bad: DerivedRow, words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words):
        builds.check(bad, np.array([2, 5], np.uint32))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(1, 5), min_size=1, max_size=3)), min_size=1, max_size=8)
)
def test_a_digest_is_made_of_the_rows_and_tells_of_what_each_shard_was_made(
    shards: list[tuple[int, list[int]]],
) -> None:
    """Each shard: which file it begins or goes on with, the records of its parts."""
    shards.sort(key=lambda one: one[0])
    files = [FileEntry(f"gs://b/{number}", 0, "1", "none") for number in range(4)]
    records = [sum(parts) for _, parts in shards]
    lengths = [100 * count for count in records]
    file_index = [number for number, _ in shards]
    offsets, sizes = [], [0] * 4
    for number, length in zip(file_index, lengths, strict=True):
        offsets.append(sizes[number])
        sizes[number] += length
    files = [FileEntry(one.uri, size, "1", "none") for one, size in zip(files, sizes, strict=True)]
    hashes = [bytes([number]) * 32 for number in range(len(shards))]
    source = Digest.build("in", files, [list(one) for one in hashes], file_index, offsets, lengths, records)
    build = builds.Build(len(shards))
    for number, (_, parts) in reversed(list(enumerate(shards))):
        assert build.put(row(number, *((50 * count, count) for count in parts)))
        assert not build.put(row(number, (1000, records[number])))
    assert build.is_whole
    digest = builds.digest_of(source, build.made(), "out", b"b" * 32)
    assert digest.num_records == source.num_records
    assert digest.records.tolist() == [count for _, parts in shards for count in parts]
    assert [one.uri for one in digest.files] == [f"derived://{(b'b' * 32).hex()}/gs://b/{n}" for n in range(4)]
    derivation = Derivation(source, digest)
    at = 0
    for number, (_, parts) in enumerate(shards):
        assert list(derivation.parts(number)) == list(range(at, at + len(parts)))
        for part in range(len(parts)):
            assert derivation.origin(at + part) == (number, part)
        at += len(parts)
