"""Several names of one content, or of what was another's: room and evictions of one leave the other's alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_pins_and_settings import until_waiting
from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, read_first, started
from tests.support.named_here import OTHER, of, scanned, unclaimed, until_done
from tests.unit.test_late_evictions import Node
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle, named_keeping
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_hashes


def told_of(coordinator: Coordinator) -> list[pb.NamedDigest]:
    """What a node is told of all digests that has been told of none."""
    reply = coordinator_pb2.OrdersReply()
    coordinator.named.to_nodes.tell(reply, 0)
    return list(reply.named)


async def nodes_are_done(coordinator: Coordinator) -> None:
    for task in list(coordinator.named.tasks):
        if not task.HasField("scan"):
            await coordinator.named.report(pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True))
    await coordinator.named.look()


async def made(coordinator: Coordinator, name: str, pin: bool = False) -> None:
    await coordinator.named.create(EVERYBODY, pb.DatasetSpec(name=name, sources=["/x"], pin=pin))
    await scanned(coordinator, name, DIGEST)
    await nodes_are_done(coordinator)


async def emptied(coordinator: Coordinator, name: str) -> None:
    await coordinator.named.evict(EVERYBODY, name, True)
    await coordinator.named.look()
    await nodes_are_done(coordinator)


async def refreshed(coordinator: Coordinator, name: str) -> None:
    await coordinator.named.refresh(EVERYBODY, name)
    await scanned(coordinator, name, OTHER)
    await nodes_are_done(coordinator)


@on_loop
async def test_room_that_a_refused_pin_wishes_for_is_no_step_that_is_taken_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had that room was to give it back, was not let, and was told to again at once."""
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        await made(coordinator, "train", pin=True)
        await made(coordinator, "other")
        await refreshed(coordinator, "train")
        await named.refresh(EVERYBODY, "other")
        await named.pin(EVERYBODY, "other", True)
        beat(coordinator, quota_bytes=1)  # the node with the room has gone
        await scanned(coordinator, "other", DIGEST)
        await named.pin(EVERYBODY, "train", False)
        steps, next_step = list[object](), named_keeping.next_step

        def counted(*arguments: Any) -> Any:
            steps.append(arguments)
            return next_step(*arguments)

        monkeypatch.setattr(named_keeping, "next_step", counted)
        for _ in range(3):
            steps.clear()
            await named.look()
        assert len(steps) < 10
        assert not named._due.is_set()
        train = coordinator.named_table.get("train")
        assert train is not None and not train.pinned


@on_loop
async def test_a_pin_that_waited_until_its_name_is_anothers_takes_no_room_for_what_it_was(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        for name in ("a", "b"):
            await named.create(EVERYBODY, of(name))
            await until_done(coordinator, name)
        async with coordinator.catalogue._setting:
            pinning = asyncio.create_task(named.pin(EVERYBODY, "a", True))
            await until_waiting(coordinator, 1)
            await named.delete(EVERYBODY, "a", force=True)
            [task_id] = [lifecycle.task_id(life) for life in coordinator.named_table if life.spec.name == "a"]
            await named.look()
            await named.report(pb.ReportTaskRequest(node_id="n", task_id=task_id, over=True))
            await named.look()
            assert coordinator.named_table.get("a") is None
            await named.create(EVERYBODY, of("a", OTHER))
        assert (await pinning).spec.pin
        for _ in range(3):
            await named.look()
        assert coordinator.caching.placement.is_pinned(OTHER.digest_id)
        assert not coordinator.caching.placement.is_pinned(DIGEST.digest_id)


@on_loop
async def test_what_an_evict_has_spared_as_another_names_goes_nowhere_later(tmp_path: Path) -> None:
    """The other one was emptied, too, some time ago, and read since."""
    (tmp_path / "node").mkdir()
    async with started(tmp_path / "coordinator") as coordinator:
        named, node = coordinator.named, Node(tmp_path / "node")
        late = await node.restarted()

        async def gone() -> list[bytes]:
            """What the node deletes of what it is told now, when it has done what it was ordered."""
            await named.look()
            for task in list(named.tasks):
                if task.HasField("evict"):
                    await late.done(task.task_id, task.evict.digest_ids)
            await nodes_are_done(coordinator)
            return await node.told(*((one.digest_id, one.evicted) for one in told_of(coordinator)))

        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        await made(coordinator, "b")
        await named.evict(EVERYBODY, "b", True)
        assert await gone() == []
        await made(coordinator, "a")
        await refreshed(coordinator, "a")  # its old version is what b has
        await named.evict(EVERYBODY, "a", True)
        assert await gone() == []
        assert {one.digest_id for one in told_of(coordinator) if one.evicted} == {DIGEST.digest_id, OTHER.digest_id}


@on_loop
async def test_what_was_emptied_keeps_what_it_shares_as_soon_as_somebody_reads_it_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with started(tmp_path) as coordinator:
        await made(coordinator, "train")
        await coordinator.named.evict(EVERYBODY, "train", True)
        await coordinator.named.look()
        await nodes_are_done(coordinator)
        assert [one.keeps_nothing for one in told_of(coordinator)] == [True]
    async with started(tmp_path) as coordinator:
        await until_done(coordinator, "train")
        assert [one.keeps_nothing for one in told_of(coordinator)] == [True]
        await read_first(coordinator, "reader")
        await coordinator.named.look()
        assert [(one.keeps_nothing, bool(one.evicted)) for one in told_of(coordinator)] == [(False, True)]


@on_loop
async def test_what_only_one_names_that_was_emptied_is_nobodys_until_somebody_uses_it(tmp_path: Path) -> None:
    """What a scan that came to nothing has left of it stayed for ever: the eviction spares what a scan may want."""
    names = of_hashes([DIGEST.hashes[0].tobytes()])
    async with started(tmp_path) as coordinator:
        await made(coordinator, "train")
        assert await unclaimed(coordinator, names) == bytes([0])
        await emptied(coordinator, "train")
        assert await unclaimed(coordinator, names) == bytes([1])
        await read_first(coordinator, "reader")
        await coordinator.named.look()
        assert await unclaimed(coordinator, names) == bytes([0]), "it is read"


@on_loop
async def test_what_one_name_has_emptied_and_another_keeps_is_claimed(tmp_path: Path) -> None:
    names = of_hashes([DIGEST.hashes[0].tobytes()])
    async with started(tmp_path) as coordinator:
        await made(coordinator, "train")
        await emptied(coordinator, "train")
        await made(coordinator, "another")
        assert await unclaimed(coordinator, names) == bytes([0])
