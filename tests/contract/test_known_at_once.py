"""Asked before gRPC is imported: the answer is the coordinator's, and whatever is in the way is no answer."""

from __future__ import annotations

import concurrent.futures
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.support.one_answer import answering
from tfquiver.data_sources_found_and_registered.known_at_once import known_at_once
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, types_pb2

KEY, OTHER = bytes(range(32)), bytes(32)
DATASET = types_pb2.Dataset(digest_id=KEY, name="flowers", shards=3, records=70_000, size_bytes=1 << 40)


class Finds(coordinator_pb2_grpc.CoordinatorServicer):
    def FindDataset(
        self, request: coordinator_pb2.FindDatasetRequest, context: grpc.ServicerContext
    ) -> types_pb2.Dataset:
        if request != coordinator_pb2.FindDatasetRequest(listing_key=KEY):
            context.abort(grpc.StatusCode.NOT_FOUND, "no such data set")
        return DATASET


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[str]:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = grpc.server(pool)
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(Finds(), running)
        running.add_insecure_port(address := f"unix:{tmp_path}/coordinator.sock")
        running.start()
        try:
            yield address
        finally:
            running.stop(None).wait()


def test_what_it_knows_and_what_it_does_not(coordinator: str) -> None:
    assert known_at_once(coordinator, KEY, 10.0) == DATASET
    assert known_at_once(coordinator, OTHER, 10.0) is None


def test_where_nobody_listens(tmp_path: Path) -> None:
    assert known_at_once(f"unix:{tmp_path}/nobody.sock", KEY, 10.0) is None
    assert known_at_once(f"unix:{tmp_path}/{'long' * 40}.sock", KEY, 10.0) is None


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes((0, 0, 6, 0, 0, 0, 0, 0, 1)) + b"\0\0\0\0\1\xff"]
)
def test_who_answers_with_something_else(tmp_path: Path, said: bytes) -> None:
    path = tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with answering(listening, said):
            assert known_at_once(f"unix:{path}", KEY, 10.0) is None


def test_who_is_silent_is_not_waited_for_longer_than_one_has_patience(tmp_path: Path) -> None:
    path = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        began_s = time.monotonic()
        assert known_at_once(f"unix:{path}", KEY, 0.05) is None
        assert time.monotonic() - began_s < 5


def test_machines_elsewhere_are_not_asked() -> None:
    with socket.create_server(("localhost", 0)) as listening:
        assert known_at_once(f"localhost:{listening.getsockname()[1]}", KEY, 10.0) is None
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
