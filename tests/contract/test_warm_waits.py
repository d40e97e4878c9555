"""`tfquiver warm` and a coordinator that has just started: its nodes have not come back yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import beat
from tests.support.coordinator_served import served
from tfquiver import errors
from tfquiver.cli.dataset_commands import warm
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.grpc_plumbing import rpc


@on_loop
async def test_nodes_that_come_back_are_waited_for(tmp_path: Path) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with served(tmp_path) as (server, _client), asyncio.timeout(30):
        rpc.on_served(lambda method, *_: loop.call_soon_threadsafe(asked.set) if method == "ListNodes" else None)
        try:
            address = f"localhost:{server.bound_port}"
            keeping = asyncio.create_task(asyncio.to_thread(warm._keeping, address, ""))
            await asked.wait()
            beat(server.coordinator, "gateway", quota_bytes=0)
            asked.clear()
            await asked.wait()
            assert not keeping.done(), "one that keeps nothing"
            beat(server.coordinator, "back")
            assert [node.node_id for node in await keeping] == ["back"]
        finally:
            rpc.on_served(None)


@on_loop
async def test_one_that_has_been_there_for_long_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "COMING_BACK_MS", 1)
    async with served(tmp_path) as (server, _client), asyncio.timeout(30):
        with pytest.raises(errors.UnavailableError, match="no node there keeps anything"):
            await asyncio.to_thread(warm._keeping, f"localhost:{server.bound_port}", "")
