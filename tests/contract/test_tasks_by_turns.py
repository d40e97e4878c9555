"""Of thousands of data sets with names that are to be warmed, emptied or deleted nodes are told of some at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, started
from tests.support.named_here import of, until_done
from tests.support.steps import steps
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.told import ITS_TURN
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes import orders_of_names as module

TELL = 3


async def named(coordinator: Coordinator, count: int) -> None:
    for number in range(count):
        await coordinator.named.create(EVERYBODY, of(f"d{number:05}"))
    await until_done(coordinator, "d00000")


async def over(coordinator: Coordinator, task_id: str, node: str = "n") -> None:
    assert await coordinator.named.report(pb.ReportTaskRequest(node_id=node, task_id=task_id, over=True))


@pytest.mark.parametrize("ends", [True, False])
@on_loop
async def test_all_have_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """Also where the first are never through: a disk hangs, say."""
    monkeypatch.setattr(module, "MOST_TASKS", TELL)
    clock, seen = ManualClock(), set[str]()
    async with started(tmp_path, clock=clock) as coordinator:
        await named(coordinator, 8)
        for number in range(8):
            await coordinator.named.prefetch(EVERYBODY, f"d{number:05}")
        for _ in range(20):
            await coordinator.named.look()
            tasks = list(coordinator.named.tasks)
            new = {task.task_id for task in tasks} - seen
            seen |= new
            assert len(new) <= TELL and (not ends or len(tasks) <= TELL)
            if left := coordinator.named.to_nodes.left_out:
                told = [one.reason for one in await coordinator.named.listed(EVERYBODY)]
                assert told.count(ITS_TURN) == len(left)
            for task in tasks if ends else ():
                await over(coordinator, task.task_id)
            clock.advance(0.1 if ends else 31.0)
            beat(coordinator)
        assert len(seen) == 8
        states = [one.state for one in await coordinator.named.listed(EVERYBODY)]
        assert set(states) == {pb.NamedDataset.STATE_READY if ends else pb.NamedDataset.STATE_WARMING}


@on_loop
async def test_who_waits_for_its_turn_waits_for_nobody_and_costs_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand nodes were noted for each of ten thousand that were to be warmed: 300 MB."""
    monkeypatch.setattr(module, "MOST_TASKS", TELL)
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        await named(coordinator, 8)
        for number in range(8):
            await coordinator.named.prefetch(EVERYBODY, f"d{number:05}")
        await coordinator.named.look()
        clock.advance(8.0)
        beat(coordinator)
        await coordinator.named.look()
        lives = [life for life in coordinator.named_table if life.life in coordinator.named.to_nodes.left_out]
        assert len(lives) == 8 - TELL
        found = [coordinator.named._overview.find_progress(life) for life in lives]
        assert all(one is None or (not one.seen and one.since_s is None) for one in found)
        reasons = [one.reason for one in await coordinator.named.listed(EVERYBODY)]
        assert sum("no answer from node n" in one for one in reasons) == TELL


@on_loop
async def test_room_is_made_by_those_whose_turn_is_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TASKS", TELL)
    async with started(tmp_path) as coordinator:
        await named(coordinator, 8)
        await coordinator.named.prefetch(EVERYBODY, "d00000")
        for number in range(1, 8):
            await coordinator.named.evict(EVERYBODY, f"d{number:05}", force=False)
        for _ in range(3):
            await coordinator.named.look()
            tasks = list(coordinator.named.tasks)
            assert tasks and not any(task.HasField("warm") for task in tasks)
            for task in tasks:
                await over(coordinator, task.task_id)
        await coordinator.named.look()
        assert [task.warm.digest_id for task in coordinator.named.tasks] == [DIGEST.digest_id]


@pytest.mark.parametrize("wish", [lifecycle.evict, lifecycle.delete, lifecycle.prefetch, lifecycle.refresh])
@on_loop
async def test_each_that_waits_takes_little_of_a_look(tmp_path: Path, wish: object) -> None:
    """Of ten thousand it took a tenth of a second to a whole one, without a pause."""
    assert callable(wish)
    costs = []
    for count in (300, 3000):
        async with started(tmp_path / str(count)) as coordinator:
            for number in range(200):
                beat(coordinator, f"node {number}")
            for number in range(count):
                made = lifecycle.made(pb.DatasetSpec(name=f"d{number}", sources=["/x"]), f"{number:032}", "", False, 1)
                coordinator.named_table.put(wish(lifecycle.scanned(made, f"{number}".encode().ljust(32), "n")))
            coordinator.named.to_nodes.look()
            costs.append(steps(coordinator.named.to_nodes.look))
    assert costs[1] - costs[0] < 100 * 2700
