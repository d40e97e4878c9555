"""What data sets are found by, and whose they are, with thousands of them: each call costs what there is of one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.steps import steps
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import DatasetRegistered
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MoveReport
from tfquiver.roles_and_tokens.identity import Identity, Role
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.move_reports import MoveReports
from tfquiver.service.coordinator.registering_sharing_removing_datasets.dataset_table import DatasetTable
from tfquiver.service.coordinator.registering_sharing_removing_datasets.found_by import FoundBy
from tfquiver.service.coordinator.registering_sharing_removing_datasets.ownership import Ownership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.visible import Visible

BLUE, ADMIN = Identity(Role.JOB, "blue"), Identity(Role.ADMIN, "ann")


def id_of(number: int) -> bytes:
    return number.to_bytes(32, "big")


def registered(number: int, name: str = "", key: bytes = b"") -> DatasetRegistered:
    return DatasetRegistered(dataset=types_pb2.Dataset(digest_id=id_of(number), name=name), listing_key=key)


def table_of(count: int) -> DatasetTable:
    table = DatasetTable(1)
    for number in range(count):
        table.apply(registered(number, f"before {number}", b"k%d" % number))
        table.apply(registered(number, f"n{number}", b"l%d" % number))
    return table


def _removal(count: int) -> Callable[[], object]:
    table = table_of(count)
    return lambda: table.apply_removal(id_of(3))


def _by_name(count: int) -> Callable[[], object]:
    table, ownership = table_of(count), Ownership(lambda _: None)
    for number in range(count):
        ownership.acquire(BLUE, id_of(number))
    visible = Visible(table, ownership)
    return lambda: visible.by_name(BLUE, "n3")


def _owned_by(count: int) -> Callable[[], object]:
    ownership = Ownership(lambda _: None)
    for number in range(count):
        ownership.acquire(BLUE, id_of(number))
    return lambda: ownership.owned_by("blue")


def _moves(count: int) -> Callable[[], object]:
    """Of one data set that two nodes move; others move others."""
    reports = MoveReports()
    for number in range(count):
        reports.take(f"n{number}", [MoveReport(digest_id=id_of(min(number, 2)))])
    return lambda: list(reports.of(id_of(1)))


@pytest.mark.parametrize("made", [_removal, _by_name, _owned_by, _moves])
def test_it_costs_the_same_with_a_thousand(made: Callable[[int], Callable[[], object]]) -> None:
    few, many = (steps(made(count)) for count in (10, 1000))
    assert few == many > 5


def test_of_one_name_the_newest_is_found_and_those_that_may_be_read() -> None:
    table, ownership = DatasetTable(1), Ownership(lambda _: None)
    visible = Visible(table, ownership)
    for number in (1, 2, 3):
        table.apply(registered(number, "train"))
    for number in (1, 2):
        ownership.acquire(BLUE, id_of(number))
    assert visible.by_name(ADMIN, "train").digest_id == id_of(3)
    assert visible.by_name(BLUE, "train").digest_id == id_of(2)
    table.apply(registered(2, "other"))
    assert visible.by_name(BLUE, "train").digest_id == id_of(1)
    assert visible.by_name(BLUE, "other").digest_id == id_of(2)
    table.apply_removal(id_of(1))
    with pytest.raises(errors.NotFoundError):
        visible.by_name(BLUE, "train")
    assert visible.by_name(ADMIN, "train").digest_id == id_of(3)


def test_who_owns_how_many_is_kept_up() -> None:
    ownership = Ownership(lambda _: None)
    for number in (1, 2):
        ownership.acquire(BLUE, id_of(number))
    ownership.share(id_of(1), ["green"], everybody=False)
    assert (ownership.owned_by("blue"), ownership.owned_by("green")) == (2, 0)
    ownership.give_up(BLUE, id_of(1))
    assert ownership.owned_by("blue") == 1
    ownership.forget(id_of(2))
    assert ownership.owned_by("blue") == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 3)))))
def test_keys_are_found_as_if_all_were_gone_through(acts: list[tuple[int, int | None]]) -> None:
    """A key that gets a value, or a value that goes."""
    found, plain = FoundBy[int, bytes](4, lambda value: value), dict[int, bytes]()
    for key, value in acts:
        if value is None:
            found.forget_data_set(b"%d" % key)
            plain = {one: its for one, its in plain.items() if its != b"%d" % key}
        else:
            found.set(key, b"%d" % value)
            plain.pop(key, None)
            plain[key] = b"%d" % value
            while len(plain) > 4:
                del plain[next(iter(plain))]
        assert list(found) == list(plain.items())
        assert all(key in found and found[key] == value for key, value in plain.items())
