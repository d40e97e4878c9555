"""What a process that materializes asks of the coordinator and of its node. Blocking; thread-safe."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import grpc

from tfquiver.grpc_plumbing import rpc
from tfquiver.materializing.elements_as_records.shard_cut import MadeShard
from tfquiver.proto.tfquiver.v1 import (
    coordinator_pb2,
    coordinator_pb2_grpc,
    derived_datasets_pb2,
    derived_datasets_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
)
from tfquiver.server_reachability.patient_calls import until_answered

_CALL_S, _MOST_S = 30.0, 1800.0
_PART_BYTES = 1 << 20
_PAUSE_S = 0.2
T = TypeVar("T")


class Calls:
    """Args:
    coordinator: host:port or unix:/path.
    control: where the node's control service is now, on this machine; may raise UnavailableError.
    token: the cluster's; "" for none.
    patience_s: how long servers that do not answer are asked again.
    """

    def __init__(self, coordinator: str, control: Callable[[], str], token: str, patience_s: float) -> None:
        self._address, self._control, self._patience_s = coordinator, control, patience_s
        self._metadata = tuple(rpc.metadata(token))
        self._channel = rpc.channel(coordinator)
        self._derived = derived_datasets_pb2_grpc.DerivedDatasetsStub(self._channel)
        self._coordinator = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        self._lock = threading.Lock()
        self._nodes: dict[str, grpc.Channel] = {}

    def open(self, request: derived_datasets_pb2.OpenDerivedRequest) -> derived_datasets_pb2.DerivedState:
        # The last to come may have to wait until all of it is registered.
        return self._asked(
            lambda: self._derived.Open.future(request, metadata=self._metadata, timeout=_MOST_S),
            f"opening {request.name}",
        )

    def claim(self, request: derived_datasets_pb2.ClaimDerivedRequest) -> derived_datasets_pb2.DerivedState:
        return self._asked(
            lambda: self._derived.Claim.future(request, metadata=self._metadata, timeout=_MOST_S), "asking for shards"
        )

    def report(self, request: derived_datasets_pb2.ReportDerivedRequest) -> derived_datasets_pb2.DerivedState:
        return self._asked(
            lambda: self._derived.Report.future(request, metadata=self._metadata, timeout=_MOST_S), "reporting shards"
        )

    def digest(self, digest_id: bytes) -> bytes:
        """The digest file. Raises NotFoundError, UnavailableError."""
        request = coordinator_pb2.GetDigestRequest(digest_id=digest_id)
        give_up_at = time.monotonic() + self._patience_s
        while True:
            try:
                parts = self._coordinator.GetDigest(request, metadata=self._metadata, timeout=_MOST_S)
                return b"".join(part.part for part in parts)
            except grpc.RpcError as error:
                if error.code() not in rpc.RETRYABLE or time.monotonic() > give_up_at:
                    what = f"asking the coordinator at {self._address} for a digest"
                    raise rpc.from_rpc_error(error, what) from error
            time.sleep(_PAUSE_S)

    def put(self, shard: MadeShard) -> bool:
        """Whether it is kept; where not it is computed again when it is wanted."""
        view = memoryview(shard.data)

        def parts() -> Iterator[node_pb2.PutDerivedRequest]:
            for at in range(0, len(view), _PART_BYTES):
                part = node_pb2.PutDerivedRequest(part=bytes(view[at : at + _PART_BYTES]))
                if at == 0:
                    part.hash, part.length_bytes = shard.hash, len(view)
                yield part

        def start() -> grpc.Future[node_pb2.PutDerivedReply]:
            return self._node(self._control()).PutDerived.future(parts(), metadata=self._metadata, timeout=_CALL_S)

        control = self._control()
        reply = until_answered(start, f"giving a derived shard to the node at {control}", control, self._patience_s)
        return bool(reply.kept)

    def _node(self, control: str) -> node_pb2_grpc.NodeStub:
        with self._lock:
            if control not in self._nodes:
                self._nodes[control] = rpc.channel(control)
            return node_pb2_grpc.NodeStub(self._nodes[control])

    def close(self) -> None:
        for channel in (self._channel, *self._nodes.values()):
            channel.close()

    def __enter__(self) -> Calls:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _asked(self, start: Callable[[], grpc.Future[T]], what: str) -> T:
        return until_answered(start, f"{what} at the coordinator at {self._address}", self._address, self._patience_s)
