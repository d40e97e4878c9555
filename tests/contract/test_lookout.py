"""A watcher's calls, at a real coordinator: what there is to see is asked for when there is something."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient, new_coordinator
from tests.support.digests import numbered_digest
from tests.unit.test_which_cluster import holding, node
from tfquiver.cli.status_asked_watched_explained import lookout as lookout_module
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.cli.status_asked_watched_explained.lookout import Lookout
from tfquiver.grpc_plumbing.kept_channels import KeptChannels
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.server import CoordinatorServer

DIGEST = numbered_digest(20, "data")


@pytest.fixture(autouse=True)
def _only_for_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout_module, "AT_LEAST_S", 3600.0)


@on_loop
async def test_it_is_looked_again_when_something_changes_and_when_the_coordinator_goes(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    with KeptChannels() as kept, Lookout(address, "", kept) as lookout:

        def names() -> list[str] | None:
            told = lookout.look(lambda: status.collect(address, kept=kept))
            return None if told is None else [one["name"] for one in told["datasets"]]

        async def look() -> list[str] | None:
            return await asyncio.to_thread(names)

        async def changed() -> list[str]:
            async with asyncio.timeout(30):
                while (found := await look()) is None:
                    await asyncio.sleep(0.01)
                return found

        async with CoordinatorServer() as server:
            await server.start(tmp_path / "work", address)
            async with CoordinatorClient.connected(address) as client:
                assert await changed() == []
                assert await changed() == [], "the first call tells only what the version is"
                assert [await look() for _ in range(20)] == [None] * 20
                await client.upload([DIGEST.to_bytes()], name="data")
                assert await changed() == ["data"]
                assert [await look() for _ in range(20)] == [None] * 20
        async with CoordinatorServer() as server:
            await server.start(tmp_path / "work", address)
            assert await changed() == ["data"], "of another one everything is asked"


@on_loop
async def test_that_a_server_of_up_is_away_is_seen_at_once(tmp_path: Path) -> None:
    """The coordinator misses a node only when it has been silent for a while, and until then nothing has changed."""
    address, directory = f"unix:{tmp_path}/socket", node(tmp_path / "cache", f"unix:{tmp_path}/socket")
    with holding(directory / up_file.LOCK_FILE), KeptChannels() as kept:
        up_file.write(directory, Ports(1, 2))
        with Lookout(str(directory), "", kept) as lookout:

            async def look() -> dict[str, Any] | None:
                return await asyncio.to_thread(lookout.look, lambda: status.collect(str(directory), kept=kept))

            async def settled() -> None:
                async with asyncio.timeout(30):
                    while await look() is not None:
                        await asyncio.sleep(0.01)

            async with CoordinatorServer() as server:
                await server.start(tmp_path / "work", address)
                await settled()
                for away in ({"node": "SIGKILL"}, {}):
                    up_file.write(directory, Ports(1, 2), away=away)
                    told = await look()
                    assert told is not None
                    assert told["up"]["away"] == [{"name": name, "ended": how} for name, how in away.items()]
                    assert bool(away) == any("ended (SIGKILL)" in problem for problem in told["problems"])
                    await settled()


@on_loop
async def test_the_call_that_waits_says_when_nothing_has_changed(tmp_path: Path) -> None:
    async with new_coordinator(tmp_path) as client:
        first = await client.call("AwaitChange", pb.AwaitChangeRequest(wait_ms=10_000))
        assert first.version
        again = await client.call("AwaitChange", pb.AwaitChangeRequest(version=first.version, wait_ms=1))
        assert again.version == first.version
        await client.upload([DIGEST.to_bytes()], name="data")
        newer = await client.call("AwaitChange", pb.AwaitChangeRequest(version=first.version, wait_ms=10_000))
        assert newer.version != first.version


def test_a_directory_without_a_node_has_no_sessions_to_be_told_of(tmp_path: Path) -> None:
    cold = {"running": False}
    with KeptChannels() as kept, Lookout(str(tmp_path), "", kept) as lookout:
        assert lookout.look(lambda: cold) == cold
