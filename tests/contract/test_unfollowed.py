"""What `tfquiver status` asks a coordinator of data sets that it does not follow, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from tfquiver.cli.showing import unfollowed as unfollowed_module
from tfquiver.cli.showing.unfollowed import Unfollowed
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2_grpc, types_pb2
from tfquiver.wire import rpc

COUNT = 40


def told(number: int, shards: int = 10) -> dict[str, Any]:
    return {"name": f"first-used-as-{number}", "digest_id": f"{number:064x}", "shards": shards, "size_bytes": 1000}


class Coordinator(named_datasets_pb2_grpc.NamedDatasetsServicer):
    def __init__(self) -> None:
        self.looked = list[str]()
        self.resident_bytes = 1000

    def _named(self, number: int) -> pb.NamedDataset:
        dataset = types_pb2.Dataset(digest_id=bytes.fromhex(f"{number:064x}"), size_bytes=1000)
        return pb.NamedDataset(spec=pb.DatasetSpec(name=f"n{number}"), dataset=dataset)

    def List(self, request: pb.ListNamedDatasetsRequest, context: Any) -> pb.ListNamedDatasetsReply:
        return pb.ListNamedDatasetsReply(datasets=map(self._named, range(COUNT)))

    def Get(self, request: pb.GetNamedDatasetRequest, context: Any) -> pb.NamedDataset:
        self.looked.append(request.name)
        found = self._named(int(request.name[1:]))
        found.resident_bytes = self.resident_bytes
        return found


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def channel(coordinator: Coordinator) -> Iterator[Any]:
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        named_datasets_pb2_grpc.add_NamedDatasetsServicer_to_server(coordinator, server)
        address = f"localhost:{server.add_insecure_port('localhost:0')}"
        server.start()
        try:
            with rpc.channel(address) as channel:
                yield channel
        finally:
            server.stop(None).wait()


def test_what_was_found_stands_for_a_while(
    coordinator: Coordinator, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfollowed = Unfollowed()
    followed = told(2) | {"resident_bytes": 7}
    given = [told(1), followed, told(COUNT)]  # the last one has no name
    for _ in range(5):
        first, second, third = unfollowed.known(channel, given, "", "coordinator")
        assert (first["resident_bytes"], second) == (1000, followed)
        assert "resident_bytes" not in third
        coordinator.resident_bytes = 500
    assert coordinator.looked == ["n1"]
    monkeypatch.setattr(unfollowed_module, "_STANDS_S", 0.0)
    assert unfollowed.known(channel, given, "", "coordinator")[0]["resident_bytes"] == 500


def test_no_more_is_looked_at_than_costs_little(coordinator: Coordinator, channel: Any) -> None:
    many = [told(number) for number in range(COUNT)]
    found = Unfollowed().known(channel, many, "", "coordinator")
    assert sum("resident_bytes" in one for one in found) == len(coordinator.looked) == 32
    coordinator.looked.clear()
    large = [told(0), told(1, 1 << 20), told(2)]
    found = Unfollowed().known(channel, large, "", "coordinator")
    assert ["resident_bytes" in one for one in found] == [True, False, False]
    assert coordinator.looked == ["n0"]


def test_a_coordinator_that_does_not_say_keeps_status_from_nothing() -> None:
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)  # older than names
        address = f"localhost:{server.add_insecure_port('localhost:0')}"
        server.start()
        try:
            with rpc.channel(address) as channel:
                assert Unfollowed().known(channel, [told(0)], "", "coordinator") == [told(0)]
        finally:
            server.stop(None).wait()
