"""What follows from the states of all data sets that have names is kept up without going through all of them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import Life
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes import tasks
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes.overview import Overview

NAMES = 2000


def made(name: str) -> Life:
    spec = pb.DatasetSpec(name=name, sources=["/x"])
    return lifecycle.scanned(lifecycle.made(spec, f"life of {name}", "", False, 1), name.encode().ljust(32), "n")


@pytest.fixture
def table() -> NamedTable:
    table = NamedTable(lambda record: None)
    for number in range(NAMES):
        table.put(made(f"n{number}"))
    return table


def test_one_that_changes_is_one_that_is_looked_at(table: NamedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: Counter[str] = Counter()
    named, task_id = tasks.named, lifecycle.task_id

    def counted(what: str, function: Any) -> Any:
        def called(life: Life) -> Any:
            looked[what] += 1
            return function(life)

        return called

    monkeypatch.setattr(tasks, "named", counted("named", named))
    monkeypatch.setattr(lifecycle, "task_id", counted("task_id", task_id))
    overview = Overview(table)
    assert overview.update()
    assert looked["named"] == NAMES
    looked.clear()
    life = table.get("n7")
    assert life is not None
    table.put(lifecycle.prefetch(life))
    assert not overview.update(), "nodes have no other digests to get"
    assert [one.spec.name for one in overview.busy()] == ["n7"]
    table.put(lifecycle.warmed(table.get("n7") or life, ""))
    assert not overview.update()
    assert not list(overview.busy())
    assert looked["named"] == 2 and not looked["task_id"]
    table.gone("n9")
    assert overview.update()
    assert len(overview.named) == NAMES - 1
    assert looked["named"] == 2


@pytest.mark.slow
@pytest.mark.long
def test_it_says_what_looking_at_all_would(table: NamedTable) -> None:
    rng, overview = random.Random(1), Overview(table)
    for step in range(300):
        name = f"n{rng.randrange(20)}"
        life = table.get(name)
        match rng.randrange(4):
            case _ if life is None:
                table.put(made(name))
            case 0:
                table.gone(name)
            case 1 if life.phase == lifecycle.READY:
                table.put(lifecycle.prefetch(life))
            case 2:
                again = lifecycle.refresh(life) if life.phase != lifecycle.SCANNING else life
                table.put(lifecycle.scanned(again, str(step).encode().ljust(32), "n"))
            case _:
                table.put(lifecycle.warmed(life, ""))
        overview.update()
        expected = sorted(one.SerializeToString() for its in table for one in tasks.named(its))
        assert sorted(one.SerializeToString() for one in overview.named) == expected
        assert {its.spec.name for its in overview.busy()} == {
            its.spec.name for its in table if its.phase != lifecycle.READY
        }


def test_progress_is_of_the_task_that_it_has_now(table: NamedTable) -> None:
    overview, life = Overview(table), table.get("n1")
    assert life is not None
    first = overview.progress(life)
    assert overview.progress(life) is first
    again = lifecycle.prefetch(life)
    assert overview.find_progress(again) is None
    assert overview.progress(again) is not first
    table.put(again)
    overview.update()
    table.gone("n1")
    overview.update()
    assert not overview._progress, "nothing is remembered of what has gone"
