"""What a name has pinned keeps its room, also against a setting that was asked for in the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import COOPERATIVE, DIGEST, parts, started
from tests.support.named_here import of, until_done
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, types_pb2
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.grpc_calls.about_datasets.dataset_calls import DatasetCalls
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.options import CoordinatorOptions

ID = DIGEST.digest_id
ASKED = {
    "SetCache": pb.SetCacheRequest(digest_id=ID, setting=COOPERATIVE),
    "SetCache of none": pb.SetCacheRequest(digest_id=ID, setting=types_pb2.CacheSetting()),
    "AllocateCacheSize": pb.AllocateCacheSizeRequest(digest_id=ID, allocation_bytes=1),
}


def call(calls: DatasetCalls, asked: str) -> Awaitable[Any]:
    """Without what makes a status of an error."""
    method: Callable[..., Awaitable[Any]] = getattr(DatasetCalls, asked.partition(" ")[0]).__wrapped__
    return method(calls, ASKED[asked], None)


async def until_waiting(coordinator: Coordinator, calls: int) -> None:
    """Who sets something waits for `_setting`."""
    lock: Any = coordinator.catalogue._setting
    async with asyncio.timeout(20):
        while len(lock._waiters or ()) < calls:
            await asyncio.sleep(0)


@pytest.mark.parametrize("asked", ASKED)
@on_loop
async def test_what_is_pinned_is_set_otherwise_by_nobody(tmp_path: Path, asked: str) -> None:
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("train", pin=True))
        await until_done(coordinator, "train")
        with pytest.raises(errors.InUseError, match="digest_id: data set train is pinned: unpin it first"):
            await call(DatasetCalls(coordinator), asked)
        assert coordinator.caching.placement.is_pinned(ID)


@on_loop
async def test_what_is_pinned_is_emptied_by_nobody_and_deleted_by_who_names_it(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("train", pin=True))
        await until_done(coordinator, "train")
        for force in (False, True):
            with pytest.raises(errors.InUseError, match="name: data set train is pinned: unpin it first"):
                await coordinator.named.evict(EVERYBODY, "train", force)
        deleted = await coordinator.named.delete(EVERYBODY, "train", force=False)
        assert deleted.state == named_datasets_pb2.NamedDataset.STATE_DELETING


@pytest.mark.parametrize("asked", ASKED)
@on_loop
async def test_a_setting_that_waits_for_a_pin_does_not_take_its_room(tmp_path: Path, asked: str) -> None:
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("train"))
        await until_done(coordinator, "train")
        async with coordinator.catalogue._setting:
            pinning = asyncio.create_task(coordinator.named.pin(EVERYBODY, "train", True))
            await until_waiting(coordinator, 1)
            setting = asyncio.ensure_future(call(DatasetCalls(coordinator), asked))
            await until_waiting(coordinator, 2)
        assert (await pinning).spec.pin
        with pytest.raises(errors.InUseError, match="digest_id: data set train is pinned: unpin it first"):
            await setting
        assert coordinator.caching.placement.is_pinned(ID)


@pytest.mark.parametrize("wish", ["unpinned", "deleted"])
@on_loop
async def test_who_gives_room_back_does_not_take_that_of_a_pin_that_comes_meanwhile(tmp_path: Path, wish: str) -> None:
    """Two names of the same content: it was pinned, and had no room."""
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        for name, pin in (("before", True), ("after", False)):
            await named.create(EVERYBODY, of(name, pin=pin))
            await until_done(coordinator, name)
        async with coordinator.catalogue._setting:
            pinning = asyncio.create_task(named.pin(EVERYBODY, "after", True))
            await until_waiting(coordinator, 1)
            if wish == "unpinned":
                await named.pin(EVERYBODY, "before", False)
            else:
                life = await named.delete(EVERYBODY, "before", force=True)
                [task_id] = [lifecycle.task_id(one) for one in coordinator.named_table if one.spec == life.spec]
                await named.report(named_datasets_pb2.ReportTaskRequest(node_id="n", task_id=task_id, over=True))
            looking = asyncio.create_task(named.look())
            await until_waiting(coordinator, 2)
        assert (await pinning).spec.pin
        await looking
        await named.look()
        assert coordinator.caching.placement.is_pinned(ID)


@on_loop
async def test_a_pin_that_comes_too_late_leaves_no_room_behind(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await named.create(EVERYBODY, of("train"))
        await until_done(coordinator, "train")
        async with coordinator.catalogue._setting:
            pinning = asyncio.create_task(named.pin(EVERYBODY, "train", True))
            await until_waiting(coordinator, 1)
            await named.evict(EVERYBODY, "train", force=False)
        with pytest.raises(errors.InUseError, match="train is being evicted"):
            await pinning
        assert not coordinator.caching.placement.is_pinned(ID)


@on_loop
async def test_a_pin_that_is_broken_off_when_it_has_room_is_one(tmp_path: Path) -> None:
    """As by a kill, or by who has asked: it had room, and was not pinned."""
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await named.create(EVERYBODY, of("train"))
        await until_done(coordinator, "train")
        pinning = asyncio.create_task(named.pin(EVERYBODY, "train", True))
        async with asyncio.timeout(20):
            while not coordinator.caching.placement.is_pinned(ID):
                await asyncio.sleep(0)
        pinning.cancel()
        await asyncio.gather(pinning, return_exceptions=True)
        assert (await until_done(coordinator, "train")).spec.pin
        await named.pin(EVERYBODY, "train", False)
        await named.look()
        assert not coordinator.caching.placement.is_pinned(ID)


@on_loop
async def test_room_of_a_pin_whose_digest_is_lost_is_nobodys(tmp_path: Path) -> None:
    """Its name was deleted, and who registered the same digest later had room that nobody had asked for."""
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("train", pin=True))
        await until_done(coordinator, "train")
    (tmp_path / "work" / "digests" / f"{ID.hex()}.tfqd").unlink()
    coordinator = Coordinator(tmp_path / "work", CoordinatorOptions(node_timeout_s=0.1))
    await coordinator.start()
    try:
        told = await until_done(coordinator, "train")
        assert (told.state, told.reason) == (named_datasets_pb2.NamedDataset.STATE_FAILED, "its digest was lost")
        await coordinator.named.delete(EVERYBODY, "train", force=False)
        await coordinator.named.look()
        assert not list(coordinator.named_table)
        await coordinator.catalogue.register("", b"", None, parts())
        assert not coordinator.caching.placement.is_pinned(ID)
    finally:
        await coordinator.stop()
