"""A coordinator and nodes as processes, and data sets with names asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from tests.support import node_calls
from tests.support.cluster import Server, wait_until
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2_grpc


class Place:
    """Stop it."""

    def __init__(
        self,
        root: Path,
        nodes: int = 3,
        env: Mapping[str, str] | None = None,
        quota: str = "64MiB",
        flags: Sequence[str] = (),
        node_flags: Sequence[str] = (),
    ) -> None:
        self.root, self._env, self._quota, self._node_flags = root, env, quota, node_flags
        self.coordinator = Server(
            "tfquiver.service.coordinator.main",
            # Old versions go soon.
            ["--port=0", f"--work_dir={root / 'work'}", "--ended_session_ms=1000", "--session_timeout_ms=1000", *flags],
            root / "coordinator.log",
        ).start()
        self.nodes = [self._node(number) for number in range(nodes)]
        wait_until(lambda: len(node_calls.nodes(self.coordinator.address)) == nodes, "all nodes are members")

    def _node(self, number: int) -> Server:
        flags = [
            f"--cache_dir={self.root / f'cache{number}'}",
            f"--coordinator={self.coordinator.address}",
            f"--quota={self._quota}",
            *self._node_flags,
        ]
        return Server("tfquiver.service.node.main", flags, self.root / f"node{number}.log", self._env).start()

    def call(self, method: str, request: Any) -> Any:
        with rpc.channel(self.coordinator.address) as channel:
            stub = named_datasets_pb2_grpc.NamedDatasetsStub(channel)
            return getattr(stub, method)(request, timeout=20.0, wait_for_ready=True)

    def until(self, name: str, *states: Any) -> pb.NamedDataset:
        wait_until(lambda: self.state(name) in states, f"{name}: {states}", 120)
        named: pb.NamedDataset = self.call("Get", pb.GetNamedDatasetRequest(name=name, resident=True))
        return named

    def state(self, name: str) -> int:
        """0: the coordinator does not answer just now, or knows none."""
        try:
            return int(self.call("Get", pb.GetNamedDatasetRequest(name=name)).state)
        except grpc.RpcError:
            return 0

    def total(self, counter: str) -> int:
        return sum(int(getattr(node_calls.status(node.ready["control"]), counter)) for node in self.nodes)

    def stop(self) -> None:
        for server in (*self.nodes, self.coordinator):
            server.stop()


def name(value: str) -> pb.NamedDatasetRequest:
    return pb.NamedDatasetRequest(name=value)
