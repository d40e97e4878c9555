"""What the operator asks a coordinator that does not answer just then, or has much to look through."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.support.aio import on_loop
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.operator.coordinator_calls import CoordinatorCalls
from tfquiver.service.operator.job_manifest import Surroundings
from tfquiver.service.operator.kubernetes_calls import KubernetesCalls
from tfquiver.service.operator.rounds import Rounds

META = {"name": "train", "namespace": "team", "uid": "u-1", "generation": 1}
SOURCES = ["gs://b/train-*"]
SPEC = {"sources": SOURCES, "prefetch": True}


class _Coordinator:
    """Has that data set, and fails with a code where it is to."""

    def __init__(self) -> None:
        self.fails, self.asked = grpc.StatusCode.OK, 0
        self.state, self.looked = pb.NamedDataset.STATE_READY, list[bool]()

    async def Get(self, request: pb.GetNamedDatasetRequest, context: Any) -> pb.NamedDataset:
        spec = pb.DatasetSpec(name=request.name, sources=SOURCES, format=types_pb2.DATASET_FORMAT_TFRECORD)
        self.looked.append(request.resident)
        found = pb.NamedDataset(spec=spec, state=self.state, version=1)
        if request.resident:
            found.resident_bytes = 40
        return found

    async def Prefetch(self, request: pb.NamedDatasetRequest, context: Any) -> pb.NamedDataset:
        self.asked += 1
        if self.fails is not grpc.StatusCode.OK:
            await context.abort(self.fails, "not now")
        return pb.NamedDataset()


@pytest.mark.parametrize(
    ("fails", "asked"), [(grpc.StatusCode.UNAVAILABLE, 2), (grpc.StatusCode.RESOURCE_EXHAUSTED, 1)]
)
@on_loop
async def test_it_is_asked_for_again_unless_it_does_not_fit(fails: grpc.StatusCode, asked: int) -> None:
    """It was taken for asked for: of a data set that was made while the coordinator was restarted nothing was read."""
    async with _served() as (servicer, rounds):
        servicer.fails = fails
        status = await rounds.dataset(META, SPEC, {})
        assert status["message"]
        servicer.fails = grpc.StatusCode.OK
        status = await rounds.dataset(META, SPEC, status)
        assert (servicer.asked, status["prefetchedVersion"], status["message"]) == (asked, 1, "")


@on_loop
async def test_how_much_of_it_nodes_hold_is_asked_as_often_as_it_is_worth() -> None:
    """Of a thousand objects the coordinator looked through all that nodes hold two hundred times a second."""
    async with _served() as (servicer, rounds):
        first = await rounds.dataset(META, {"sources": SOURCES}, {})
        rounds._resident._took_s = 1000.0
        again = await rounds.dataset(META, {"sources": SOURCES}, first)
        assert servicer.looked == [True, False]
        assert first["residentBytes"] == again["residentBytes"] == 40
        assert first["conditions"] == again["conditions"]
        servicer.state = pb.NamedDataset.STATE_WARMING
        assert (await rounds.dataset(META, {"sources": SOURCES}, again))["residentBytes"] == 40
        assert servicer.looked[2:] == [False, True], "what is warmed may be more"
        await rounds.dataset(META | {"uid": "u-2"}, {"sources": SOURCES}, {})
        assert servicer.looked[4:] == [True], "another object"


@asynccontextmanager
async def _served() -> AsyncIterator[tuple[_Coordinator, Rounds]]:
    server, servicer = grpc.aio.server(), _Coordinator()
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Get": grpc.unary_unary_rpc_method_handler(
            servicer.Get, pb.GetNamedDatasetRequest.FromString, pb.NamedDataset.SerializeToString
        ),
        "Prefetch": grpc.unary_unary_rpc_method_handler(
            servicer.Prefetch, pb.NamedDatasetRequest.FromString, pb.NamedDataset.SerializeToString
        ),
    }
    service = pb.DESCRIPTOR.services_by_name["NamedDatasets"].full_name
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, methods)])
    port = server.add_insecure_port("localhost:0")
    await server.start()
    calls = CoordinatorCalls(f"localhost:{port}", "")
    try:
        yield servicer, Rounds(calls, KubernetesCalls(), Surroundings("c:1", 1))
    finally:
        await calls.close()
        await server.stop(None)
