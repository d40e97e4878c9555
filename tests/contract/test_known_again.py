"""What a mount makes known again: a data set that its coordinator has lost, and none that somebody has deleted, that is
another's, or whose name something else has now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.server import CoordinatorServer

trio = pytest.importorskip("trio")
known_again = pytest.importorskip("tfquiver.mounting.known_again")

SHOWN = numbered_digest(3, "data")


@asynccontextmanager
async def coordinator(tmp_path: Path) -> AsyncIterator[tuple[CoordinatorServer, CoordinatorClient, str, str]]:
    """And where it is for who may all, and for a job."""
    server, address, job = CoordinatorServer(), f"unix:{tmp_path / 'all'}", f"unix:{tmp_path / 'job'}"
    await server.start(tmp_path / "work", address, readers_address=job)
    async with server, CoordinatorClient.connected(address) as client:
        yield server, client, address, job


@pytest.fixture(autouse=True)
def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def here(call: Callable[[], bool], **_: Any) -> bool:  # trio's own threads stay for a while
        return call()

    monkeypatch.setattr(trio.to_thread, "run_sync", here)


async def made_known(address: str) -> bool:
    asked = known_again.KnownAgain(SHOWN, None, lambda: address, "")
    return bool(await asyncio.to_thread(trio.run, asked))


async def found(client: CoordinatorClient, **by: Any) -> bytes:
    try:
        return bytes((await client.call("FindDataset", pb.FindDatasetRequest(**by))).digest_id)
    except errors.NotFoundError:
        return b""


@on_loop
async def test_what_a_coordinator_has_never_known(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as (_, client, address, _):
        assert await made_known(address)
        assert await found(client, name="data") == SHOWN.digest_id
        assert not await made_known(address), "it is known"


@on_loop
async def test_what_somebody_has_deleted_stays_gone(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as (_, client, address, _):
        await client.upload([SHOWN.to_bytes()], "data")
        await client.call("DeleteDataset", pb.DeleteDatasetRequest(digest_id=SHOWN.digest_id, force=True))
        assert not await made_known(address)
        assert not await found(client, digest_id=SHOWN.digest_id)
        await client.upload([SHOWN.to_bytes()], "data")  # but for whoever registers it
        assert await found(client, digest_id=SHOWN.digest_id)


@on_loop
async def test_what_is_not_shared_with_a_job_any_more_does_not_become_its_own(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as (server, client, _, job):
        await client.upload([SHOWN.to_bytes()], "data")
        assert not await made_known(job)
        assert not server.coordinator.ownership.access(SHOWN.digest_id).owners


@on_loop
async def test_what_has_its_name_now_is_found_by_it(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as (_, client, address, _):
        newer = numbered_digest(4, "data")
        await client.upload([newer.to_bytes()], "data")
        assert await made_known(address)
        assert await found(client, name="data") == newer.digest_id
        assert await found(client, digest_id=SHOWN.digest_id) == SHOWN.digest_id
