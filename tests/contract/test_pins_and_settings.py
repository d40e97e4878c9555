"""What a name has pinned keeps its room, also against a setting that was asked for in the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import COOPERATIVE, DIGEST, started
from tests.support.named_here import of, until_done
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.grpc_calls.about_datasets.dataset_calls import DatasetCalls

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


@pytest.mark.parametrize("asked", ASKED)
@on_loop
async def test_what_is_pinned_is_set_otherwise_by_nobody(tmp_path: Path, asked: str) -> None:
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("train", pin=True))
        await until_done(coordinator, "train")
        with pytest.raises(errors.InUseError, match="digest_id: train is pinned: unpin it first"):
            await call(DatasetCalls(coordinator), asked)
        assert coordinator.caching.placement.is_pinned(ID)


@pytest.mark.parametrize("asked", ASKED)
@on_loop
async def test_a_setting_that_waits_for_a_pin_does_not_take_its_room(tmp_path: Path, asked: str) -> None:
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("train"))
        await until_done(coordinator, "train")
        lock: Any = coordinator.catalogue._setting

        async def until_waiting(calls: int) -> None:
            async with asyncio.timeout(20):
                while len(lock._waiters or ()) < calls:
                    await asyncio.sleep(0)

        async with lock:
            pinning = asyncio.create_task(coordinator.named.pin(EVERYBODY, "train", True))
            await until_waiting(1)
            setting = asyncio.ensure_future(call(DatasetCalls(coordinator), asked))
            await until_waiting(2)
        assert (await pinning).spec.pin
        with pytest.raises(errors.InUseError, match="digest_id: train is pinned: unpin it first"):
            await setting
        assert coordinator.caching.placement.is_pinned(ID)
