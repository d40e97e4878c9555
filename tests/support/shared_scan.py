"""A data set in a slow store that three nodes scan together, as processes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import node_calls
from tests.support.cluster import Server
from tests.support.named_place import Place
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, types_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.testing.emulated_store import EmulatedStore

FILES, FILE_BYTES = 36, 1_000_000
SIZE_BYTES = FILES * FILE_BYTES
SHARED = "--scan_share_bytes=8MiB"  # three nodes' shares, and one file in each call
ALONE = "--scan_share_bytes=0"
SPEC = pb.DatasetSpec(name="files", sources=["gs://bucket/file-*"], format=types_pb2.DATASET_FORMAT_BYTES)


@contextmanager
def stored(bytes_per_s: float, files: int = FILES) -> Iterator[EmulatedStore]:
    rng = random.Random(5)
    with EmulatedStore.start(bytes_per_s) as store:
        store.make_bucket("bucket")
        for number in range(files):
            store.put("bucket", f"file-{number}", rng.randbytes(FILE_BYTES))
        yield store


@contextmanager
def place(root: Path, store: EmulatedStore, flag: str = SHARED, nodes: int = 3) -> Iterator[Place]:
    env = {"STORAGE_EMULATOR_HOST": store.url}
    made = Place(root, nodes, env, quota="128MiB", flags=["--node_timeout_ms=2000"], node_flags=[flag])
    try:
        yield made
    finally:
        made.stop()


def scanning(place: Place) -> Server:
    """The node whose task it is."""
    with rpc.channel(place.coordinator.address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        [task] = stub.Orders(coordinator_pb2.OrdersRequest(), timeout=20).tasks
    return next(node for node in place.nodes if node.ready["node_id"] == task.scan.node_id)


def read_bytes(node: Server) -> int:
    return int(node_calls.status(node.ready["control"]).store_bytes)
