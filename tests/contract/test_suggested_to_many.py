"""Where the pods of a sweep should run is looked for once for all who ask, as long as nodes tell nothing new."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, started
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.grpc_calls.about_datasets import place_calls
from tfquiver.service.coordinator.grpc_calls.about_datasets.place_calls import PlaceCalls


@on_loop
async def test_what_nodes_hold_is_looked_through_when_they_have_told_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand nodes with a million shards it took a tenth of a second, twice for each pod."""
    looks, look = list[int](), place_calls.held_of
    monkeypatch.setattr(place_calls, "held_of", lambda *given: looks.append(1) or look(*given))
    async with started(tmp_path) as coordinator:
        calls = PlaceCalls(coordinator)

        async def best() -> tuple[str, int]:
            # Without what makes a status of an error.
            ask = PlaceCalls.SuggestPlacement.__wrapped__  # type: ignore[attr-defined]
            [first, *_] = (await ask(calls, pb.SuggestPlacementRequest(digest_id=DIGEST.digest_id), None)).scores
            return first.name, first.node_bytes

        size_bytes = int(DIGEST.lengths.sum())
        beat(coordinator, "has", holds=DIGEST)
        assert await asyncio.gather(*(best() for _ in range(10))) == [("has", size_bytes)] * 10
        assert await best() == ("has", size_bytes) and len(looks) == 1
        await coordinator.catalogue.set_placement(DIGEST.digest_id, types_pb2.PlacementRule(stripe=1))
        await best()
        assert len(looks) == 2, "where it is to be kept is another"
        await coordinator.leave("has", "1")
        assert (await best())[1] == 0 and len(looks) == 3
        request = pb.HeartbeatRequest(incarnation="1", inventory=pb.Inventory(full=True, version=1))
        request.node.node_id, request.node.quota_bytes, request.node.labels["rack"] = "new", 1, "r1"
        coordinator.heartbeats.take(request)
        await best()
        assert len(looks) == 4, "there is another node"
        await coordinator.catalogue.delete(place_calls.caller(), DIGEST.digest_id, force=True)
        with pytest.raises(errors.NotFoundError):
            await best()
