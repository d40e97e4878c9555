"""What dispatchers say of themselves by a real coordinator's call: their ids, and none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_served import served
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb


@on_loop
async def test_an_id_that_is_too_long_is_refused_and_who_tells_none_is_told_of(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client):

        async def tell(address: str, id: str, leaves: bool = False) -> None:
            info = pb.DispatcherInfo(address=address, id=id)
            await client.call("ReportDispatcher", pb.ReportDispatcherRequest(dispatcher=info, leaves=leaves))

        for leaves in (False, True):
            with pytest.raises(errors.InvalidArgumentError, match=r"dispatcher\.id's bytes: 65; it is 0 to 64"):
                await tell("d:1", "é" * 32 + "x", leaves)
        dispatchers = server.coordinator.dispatchers
        assert dispatchers.live() == []
        await tell("d:1", "")
        await tell("d:2", "é" * 32)
        await tell("d:3", "\n\x00'\"")
        assert [one.address for one in dispatchers.live()] == ["d:1", "d:2", "d:3"]
        await tell("d:3", "another", leaves=True)
        assert [one.address for one in dispatchers.live()] == ["d:1", "d:2"]
