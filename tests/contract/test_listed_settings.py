"""Settings of data sets are told with their list: thousands of calls, one for each, held a coordinator's loop up."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_served import served
from tests.support.digests import numbered_digest
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2
from tfquiver.service.coordinator.grpc_calls.about_datasets.dataset_calls import DatasetCalls

NONE = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_NONE)


def cache_modes(address: str) -> dict[str, str]:
    return {one["digest_id"][:2]: one["cache"]["mode"] for one in status.collect(address)["datasets"]}


@pytest.mark.slow
@on_loop
async def test_each_data_set_has_its_own_and_none_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(*_: object) -> None:
        raise AssertionError("one at a time")

    digests = [numbered_digest(3, f"data {number}") for number in range(5)]
    monkeypatch.setattr(DatasetCalls, "GetCache", asked)
    async with served(tmp_path / "work") as (server, client):
        for digest in digests:
            await client.upload([digest.to_bytes()])
        for digest in digests[::2]:
            await client.call("SetCache", pb.SetCacheRequest(digest_id=digest.digest_id, setting=NONE))
        found = await asyncio.to_thread(cache_modes, f"localhost:{server.bound_port}")
        for number, digest in enumerate(digests):
            assert found[digest.digest_id.hex()[:2]] == ("unset" if number % 2 else "none")


class Older(coordinator_pb2_grpc.CoordinatorServicer):
    """Knows nothing of settings in lists; one data set of three is removed meanwhile."""

    def ListNodes(self, request: Any, context: Any) -> pb.ListNodesReply:
        return pb.ListNodesReply()

    def ListSessions(self, request: Any, context: Any) -> pb.ListSessionsReply:
        return pb.ListSessionsReply()

    def ListDatasets(self, request: Any, context: Any) -> pb.ListDatasetsReply:
        return pb.ListDatasetsReply(datasets=[types_pb2.Dataset(digest_id=bytes([number] * 32)) for number in range(3)])

    def GetCache(self, request: pb.GetCacheRequest, context: Any) -> types_pb2.CacheSetting:
        if request.digest_id[0] == 1:
            context.abort(grpc.StatusCode.NOT_FOUND, "it is gone")
        return NONE


def test_an_older_coordinator_is_asked_for_each() -> None:
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool)
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(Older(), server)
        address = f"localhost:{server.add_insecure_port('localhost:0')}"
        server.start()
        try:
            assert cache_modes(address) == {"00": "none", "02": "none"}
        finally:
            server.stop(None).wait()
