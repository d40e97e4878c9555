"""A build of millions of rows, among thousands of recipes: what a row takes, and what is gone through for one call."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from tests.support.python_calls import python_calls
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.proto.tfquiver.v1.derived_datasets_pb2 import DerivedRow
from tfquiver.service.coordinator.derived_datasets.build import Build
from tfquiver.service.coordinator.derived_datasets.claims import CLAIM_S, Claims
from tfquiver.service.coordinator.derived_datasets.recipes import Recipe, Recipes

ROWS = 20_000


class Few(dict[Any, Any]):
    """Whose entries are found one by one only."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("all of them are gone through")

    values = items = __iter__  # type: ignore[assignment]


def rows(first: int, end: int) -> Iterator[DerivedRow]:
    for number in range(first, end):
        made = DerivedRow(row=number)
        made.parts.add(hash=number.to_bytes(32, "little"), length_bytes=100, records=2)
        yield made


def begun(recipes: Recipes, key: bytes = b"r" * 32, count: int = ROWS) -> Recipe:
    return recipes.begin(key, b"s" * 32, "name", "", count, 0, 0.0, lambda digest_id: True)


def test_a_row_takes_as_much_as_it_says() -> None:
    build = Build(ROWS)
    tracemalloc.start()
    try:
        for row in rows(0, ROWS):
            build.put(row)
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert build.is_whole
    assert taken_bytes < 64 * ROWS + (1 << 20)


def test_what_a_snapshot_takes_of_a_build_does_not_change_and_copies_nothing() -> None:
    recipes = Recipes(lambda record: None)
    recipe = begun(recipes)
    recipes.report(recipe, list(rows(0, ROWS - 1)))
    tracemalloc.start()
    try:
        records = recipes.still()
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken_bytes < ROWS, "less than a byte a row: the loop does it"
    recipes.report(recipe, list(rows(ROWS - 1, ROWS)))
    told = [row for record in records() for row in record.derived_rows.rows]
    assert told == list(rows(0, ROWS - 1))


def test_what_the_log_says_is_not_gone_through_again_when_the_input_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    journal: list[CommitRecord] = []
    recipes = Recipes(journal.append)
    recipes.report(begun(recipes), list(rows(0, ROWS)))
    again = Recipes(lambda record: None)
    for record in journal:
        again.apply(record)
    recipe = again.get(b"r" * 32)
    assert recipe is not None
    monkeypatch.setattr(Build, "put", lambda *_: pytest.fail("a row is put on the loop"))
    assert again.sized(recipe, ROWS).is_whole


def test_a_report_looks_at_builds_and_not_at_all_recipes() -> None:
    recipes = Recipes(lambda record: None)
    recipe = begun(recipes, count=2)
    for number in range(100):
        recipes.made(begun(recipes, number.to_bytes(32, "little")), number.to_bytes(32, "big"))
    recipes._recipes = Few(recipes._recipes)
    assert recipes.report(recipe, list(rows(0, 1))) == 1
    assert recipes.builds() == [recipe]


def test_who_waits_for_a_row_does_not_go_through_all_claims() -> None:
    claims, done = Claims(ROWS), bytearray(ROWS)
    for number in range(ROWS // 100):
        assert len(claims.give(str(number), 100, done, float(number and 1 + number % 7))) == 100
    claims.renew("0", range(100), 8.0)
    claims._held = Few(claims._held)
    assert claims.next_s() == CLAIM_S + 1.0
    assert claims.give("who waits", 1, done, 10.0) == []
    assert claims.give("who waits", 1, done, CLAIM_S + 1.0) == [700]


def test_claims_that_are_over_are_not_kept() -> None:
    claims, done = Claims(ROWS), bytearray(ROWS)
    for row in range(ROWS):
        assert claims.give("a", 1, done, 0.0) == [row]
        done[row] = 1
        claims.over(row)
    assert len(claims._ends) < 5000
    assert claims.next_s() is None


def test_no_message_is_made_of_thousands_of_recipes_before_a_snapshot_is_written() -> None:
    recipes = Recipes(lambda record: None)
    for number in range(200):
        recipes.made(begun(recipes, number.to_bytes(32, "little"), 2), number.to_bytes(32, "big"))
    calls = python_calls(recipes.still)
    assert calls < 5 * 200
    assert len(list(recipes.still()())) == 400
