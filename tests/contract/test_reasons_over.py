"""Reasons that are over as nodes tell: of a prefetch that found no room, of an eviction while a node was away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import started
from tests.support.named_here import of, until_done
from tests.support.planning import beat as beat_once
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle

NO_ROOM = "there is no more room: its quota"
READY, WARMING = pb.NamedDataset.STATE_READY, pb.NamedDataset.STATE_WARMING


def beat(coordinator: Coordinator, node: str, quota_bytes: int, disk_room_bytes: int | None = None) -> None:
    """Twice: the first one may have been on its way when something else was told."""
    for _ in range(2):
        beat_once(coordinator, node, quota_bytes, disk_room_bytes=disk_room_bytes)


async def told_over(coordinator: Coordinator, *lacks_bytes: int) -> pb.NamedDataset:
    """The task that all nodes have is over; how much room each had not."""
    await coordinator.named.look()
    [task] = coordinator.named.tasks
    for node, lacks in zip("nm", lacks_bytes, strict=False):
        report = pb.ReportTaskRequest(node_id=node, task_id=task.task_id, over=True, lacks_room_bytes=lacks)
        report.trouble = NO_ROOM if lacks else ""
        assert await coordinator.named.report(report)
    return await until_done(coordinator, "train")


@pytest.mark.slow
@on_loop
async def test_that_there_was_no_room_is_said_until_there_is(tmp_path: Path) -> None:
    """It was said, with its date, until the next prefetch."""
    async with started(tmp_path) as coordinator:
        for node in "nm":
            beat(coordinator, node, 1 << 40, disk_room_bytes=99)
        await coordinator.named.create(EVERYBODY, of("train"))
        await coordinator.named.prefetch(EVERYBODY, "train")
        told = await told_over(coordinator, 100, 200)
        assert (told.state, told.reason) == (READY, NO_ROOM)
        beat(coordinator, "n", 1 << 40, disk_room_bytes=100)
        beat(coordinator, "m", 1 << 40, disk_room_bytes=199)
        assert (await until_done(coordinator, "train")).reason == NO_ROOM, "one of them has none still"
    async with started(tmp_path) as coordinator:  # which adds the node n, with room for anything
        beat(coordinator, "m", 1 << 40, disk_room_bytes=199)
        assert (await until_done(coordinator, "train")).reason == NO_ROOM
        beat(coordinator, "n", 1 << 40)
        beat(coordinator, "m", 1 << 40, disk_room_bytes=200)
        told = await until_done(coordinator, "train")
        assert (told.state, told.reason, told.reason_s) == (READY, "", 0)


@on_loop
async def test_room_that_a_node_had_before_it_was_through_is_no_room(tmp_path: Path) -> None:
    """It was filled since: that there is none was told for no moment, and all seemed to be there."""
    async with started(tmp_path) as coordinator:
        beat(coordinator, "n", 1 << 40, disk_room_bytes=1000)
        await coordinator.named.create(EVERYBODY, of("train"))
        await coordinator.named.prefetch(EVERYBODY, "train")
        assert (await told_over(coordinator, 100)).reason == NO_ROOM
        beat_once(coordinator, "n", 1 << 40, disk_room_bytes=1000)
        assert (await until_done(coordinator, "train")).reason == NO_ROOM, "it was on its way"
        beat_once(coordinator, "n", 1 << 40, disk_room_bytes=99)
        assert (await until_done(coordinator, "train")).reason == NO_ROOM
        beat_once(coordinator, "n", 1 << 40, disk_room_bytes=100)
        assert not (await until_done(coordinator, "train")).reason


@on_loop
async def test_what_is_pinned_is_read_when_there_is_room(tmp_path: Path) -> None:
    """It stayed as it was, whatever room there came, until somebody asked for a prefetch."""
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        beat(coordinator, "n", 1 << 40)
        await coordinator.named.create(EVERYBODY, of("train", pin=True))
        await coordinator.named.prefetch(EVERYBODY, "train")
        beat(coordinator, "n", 1 << 40, disk_room_bytes=99)
        told = await told_over(coordinator, 100)
        assert (told.state, told.reason) == (READY, NO_ROOM)
        beat(coordinator, "n", 1 << 40, disk_room_bytes=100)
        assert (await until_done(coordinator, "train")).reason == NO_ROOM, "it is not tried all the time"
        clock.advance(9.0)
        beat(coordinator, "n", 1 << 40, disk_room_bytes=100)
        assert (await until_done(coordinator, "train")).state == READY
        clock.advance(1.0)
        assert (await until_done(coordinator, "train")).state == WARMING
        told = await told_over(coordinator, 0)
        assert (told.state, told.reason) == (READY, "")


@on_loop
async def test_what_is_pinned_is_read_when_its_pin_has_its_room(tmp_path: Path) -> None:
    """The pin had waited for the quotas: what was said of that took the place of what the prefetch had lacked."""
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        beat(coordinator, "n", 100)
        await coordinator.named.create(EVERYBODY, of("train", pin=True))
        await until_done(coordinator, "train")
        await coordinator.named.prefetch(EVERYBODY, "train")
        await told_over(coordinator, 100)
        clock.advance(400.0)
        beat(coordinator, "n", 100)
        told = await until_done(coordinator, "train")
        assert told.reason.startswith(lifecycle.NOT_PINNED) and not told.pinned
    async with started(tmp_path) as coordinator:  # which adds the node n, with room for anything
        told = await until_done(coordinator, "train")
        assert (told.state, told.reason, told.pinned) == (WARMING, "", True)
        told = await told_over(coordinator, 100)
        assert (told.state, told.reason) == (READY, NO_ROOM), "once"
        await coordinator.named.pin(EVERYBODY, "train", False)
        assert (await until_done(coordinator, "train")).reason == NO_ROOM
        beat(coordinator, "n", 1 << 40, disk_room_bytes=100)
        told = await until_done(coordinator, "train")
        assert (told.state, told.reason) == (READY, ""), "it is pinned no more"


@on_loop
async def test_another_trouble_is_not_over_with_the_room(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("train"))
        await coordinator.named.prefetch(EVERYBODY, "train")
        await coordinator.named.look()
        [task] = coordinator.named.tasks
        report = pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True, trouble="the store is away")
        assert await coordinator.named.report(report)
        for _ in range(2):
            assert (await until_done(coordinator, "train")).reason == "the store is away"


@on_loop
async def test_that_a_node_was_away_is_said_until_it_is_back(tmp_path: Path) -> None:
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        beat(coordinator, "m", 1 << 40)
        await coordinator.named.create(EVERYBODY, of("train"))
        clock.advance(9.0)
        beat(coordinator, "n", 1 << 40)
        clock.advance(9.0)
        assert coordinator.membership.expire() == ["m"]
        await coordinator.named.evict(EVERYBODY, "train", force=False)
        told = await told_over(coordinator, 0)
        assert told.reason == "node m is away: what it keeps of it goes when it comes back"
        assert (await until_done(coordinator, "train")).reason == told.reason
        beat(coordinator, "m", 1 << 40)
        assert not (await until_done(coordinator, "train")).reason
