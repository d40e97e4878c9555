"""Nodes with labels and a coordinator, as real processes; what each holds of a data set."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support import node_calls, records
from tests.support.cluster import Server, wait_until
from tests.support.reader_client import ReaderClient
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2
from tfquiver.scanning.cutting import CutPolicy

SMALL = CutPolicy(2_000, 8_000, 32_000)
CALL_S = 20.0


class Racked:
    """Use as a context manager. Nodes by name; `labels` as --labels takes them."""

    def __init__(self, base: Path, labels: dict[str, str], flags: Sequence[str] = ()) -> None:
        self.base, self._labels, self._flags = base, labels, list(flags)
        self.nodes: dict[str, Server] = {}
        arguments = ["--port=0", f"--work_dir={base / 'work'}", "--node_timeout_ms=2000"]
        self.coordinator = Server("tfquiver.service.coordinator.main", arguments, base / "coordinator.log")
        self._stack = ExitStack()

    def __enter__(self) -> Racked:
        self._stack.callback(lambda: self.coordinator.running and self.coordinator.kill())
        self.coordinator.start()
        try:
            for name in self._labels:
                self.add(name)
            self.await_members(len(self._labels))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, name: str, labels: str = "", *flags: str) -> Server:
        labels = labels or self._labels[name]
        arguments = [
            f"--cache_dir={self.base / name}", "--quota=64MiB", f"--coordinator={self.coordinator.address}",
            f"--labels={labels}", *self._flags, *flags,
        ]  # fmt: skip
        node = Server("tfquiver.service.node.main", arguments, self.base / f"{name}.log")
        self._stack.callback(lambda: node.running and node.kill())
        self.nodes[name] = node.start()
        return node

    def await_members(self, count: int) -> None:
        wait_until(lambda: len(node_calls.nodes(self.coordinator.address)) == count, f"{count} members")

    def scan(self, by: str, seed: int = 3, count: int = 3000) -> tuple[types_pb2.Dataset, list[bytes]]:
        rng = random.Random(seed)
        made = [b"%06d " % n + rng.randbytes(rng.randrange(400)) for n in range(count)]
        for part in range(4):
            (self.base / f"train-{part}").write_bytes(records.stream(made[part::4]))
        return node_calls.ensure(self.nodes[by].ready["control"], self.base / "train-*", SMALL), made

    def read(self, by: str, digest_id: bytes) -> list[bytes]:
        client = ReaderClient(self.nodes[by].ready["socket"], digest_id, credit_bytes=200_000)
        try:
            return list(client.records())
        finally:
            client.close()

    def call(self, method: str, request: Any) -> Any:
        with rpc.channel(self.coordinator.address) as channel:
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            return getattr(stub, method)(request, timeout=CALL_S, wait_for_ready=True)

    def place(self, digest_id: bytes, **rule: Any) -> pb.PlacementReply:
        reply: pb.PlacementReply = self.call(
            "SetPlacement", pb.SetPlacementRequest(digest_id=digest_id, rule=types_pb2.PlacementRule(**rule))
        )
        return reply

    def anywhere(self, digest_id: bytes) -> pb.PlacementReply:
        reply: pb.PlacementReply = self.call("SetPlacement", pb.SetPlacementRequest(digest_id=digest_id))
        return reply

    def placement(self, digest_id: bytes) -> pb.PlacementReply:
        reply: pb.PlacementReply = self.call("GetPlacement", pb.GetPlacementRequest(digest_id=digest_id))
        return reply

    def ids(self, *names: str) -> list[str]:
        return sorted(str(self.nodes[name].ready["node_id"]) for name in names)

    def status(self, name: str) -> Any:
        return node_calls.status(self.nodes[name].ready["control"])

    def entries(self) -> dict[str, int]:
        return {name: self.status(name).entries for name, node in self.nodes.items() if node.running}

    def store_bytes(self) -> int:
        return sum(self.status(name).store_bytes for name, node in self.nodes.items() if node.running)

    def settled(self, digest_id: bytes, names: Sequence[str], shards: int) -> bool:
        """So many entries on these nodes together, none elsewhere, and all of them say that nothing is left to move."""
        entries = self.entries()
        elsewhere = sum(count for name, count in entries.items() if name not in names)
        settled = self.placement(digest_id).settled
        return settled and not elsewhere and sum(entries[name] for name in names) == shards
