"""A digest that is given a name while it is being removed stays: who was told that the name is theirs keeps it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, parts
from tests.support.coordinator_served import served
from tests.support.named_here import of, until_done
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY


@on_loop
async def test_what_is_named_while_it_is_being_removed_stays(tmp_path: Path) -> None:
    """It failed: its digest was lost."""
    async with served(tmp_path / "work") as (server, client):
        coordinator = server.coordinator
        await coordinator.catalogue.register("", b"", None, parts())
        async with coordinator.catalogue._setting:  # it waits, as for nodes after a restart
            request = coordinator_pb2.DeleteDatasetRequest(digest_id=DIGEST.digest_id, force=True)
            deleting = asyncio.ensure_future(client.call("DeleteDataset", request))
            await asyncio.wait([deleting], timeout=0.2)
            await coordinator.named.create(EVERYBODY, of("train"))
        with pytest.raises(errors.TfquiverError, match="it is a version of train: delete that"):
            await deleting
        assert (await until_done(coordinator, "train")).state == pb.NamedDataset.STATE_READY


@on_loop
async def test_what_another_name_gets_while_one_is_deleted_stays(tmp_path: Path) -> None:
    async with served(tmp_path / "work") as (server, _):
        coordinator = server.coordinator
        await coordinator.catalogue.register("", b"", None, parts())
        await coordinator.named.create(EVERYBODY, of("first"))
        await until_done(coordinator, "first")
        async with coordinator.catalogue._setting:
            await coordinator.named.delete(EVERYBODY, "first", force=True)
            await asyncio.sleep(1.5)  # longer than between two looks: it is about to be removed
            await coordinator.named.create(EVERYBODY, of("second"))
        for _ in range(2):
            await until_done(coordinator, "second")
        assert [one.spec.name for one in await coordinator.named.listed(EVERYBODY)] == ["second"]
        assert (await until_done(coordinator, "second")).state == pb.NamedDataset.STATE_READY
