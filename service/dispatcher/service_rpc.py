"""The two internal calls of TensorFlow's service that the reaper needs, with messages made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import grpc

from tfquiver.service.dispatcher import proto_wire
from tfquiver.wire import rpc

_WORKER_UPDATE = "/tensorflow.data.DispatcherService/WorkerUpdate"
_GET_WORKER_TASKS = "/tensorflow.data.WorkerService/GetWorkerTasks"
_CALL_S = 2.0


class ServiceRpc(Protocol):
    def unreachable(self, workers: Sequence[str]) -> set[str]:
        """Those of `workers` (host:port) that do not answer."""

    def finish_tasks(self, worker: str, task_ids: Sequence[int]) -> None:
        """Tells the dispatcher that `worker` has finished the tasks. Idempotent. Raises grpc.RpcError."""


class GrpcServiceRpc:
    """Messages by hand: WorkerUpdateRequest {1: worker_address, 2: {1: task_id, 2: completed}}."""

    def __init__(self, dispatcher_address: str) -> None:
        self._dispatcher = rpc.channel(dispatcher_address)
        self._workers: dict[str, grpc.Channel] = {}

    def unreachable(self, workers: Sequence[str]) -> set[str]:
        for address in self._workers.keys() - set(workers):
            self._workers.pop(address).close()
        for address in workers:
            if address not in self._workers:
                self._workers[address] = rpc.channel(address)
        calls = {
            address: _method(self._workers[address], _GET_WORKER_TASKS).future(b"", timeout=_CALL_S)
            for address in workers
        }
        return {address for address, call in calls.items() if call.exception() is not None}

    def finish_tasks(self, worker: str, task_ids: Sequence[int]) -> None:
        updates = b"".join(
            proto_wire.text(2, proto_wire.integer(1, task_id) + proto_wire.integer(2, 1)) for task_id in task_ids
        )
        _method(self._dispatcher, _WORKER_UPDATE)(proto_wire.text(1, worker) + updates, timeout=_CALL_S)

    def close(self) -> None:
        for channel in (self._dispatcher, *self._workers.values()):
            channel.close()


def _method(channel: grpc.Channel, path: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
    """A method whose messages go as they are."""
    return channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
