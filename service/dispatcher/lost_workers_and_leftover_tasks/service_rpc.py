"""The internal calls of TensorFlow's service that watching its workers needs, with messages made by hand."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import grpc

from tfquiver.grpc_plumbing import rpc
from tfquiver.server_reachability.refusals import Refusals
from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire, worker_list

_WORKER_UPDATE = "/tensorflow.data.DispatcherService/WorkerUpdate"
_GET_WORKER_TASKS = "/tensorflow.data.WorkerService/GetWorkerTasks"
_CALL_S = 2.0
# What gRPC says, which tries again and again (`rpc.channel`), of the last address that a name has: `Refusals` looks at
# all. Where another gRPC says it otherwise nobody is seen to refuse.
_NO_CONNECTION, _REFUSED = "failed to connect to all addresses", "Connection refused"


class ServiceRpc(Protocol):
    @property
    def refusing(self) -> Set[str]:
        """Of the workers that did not answer when they were asked last: those where nobody listens. The kernel of their
        machine says so: there is no such process, or it is just starting. One that hangs, or has too much to do, does
        not refuse, nor does a machine that is away."""

    def tasks(self, workers: Sequence[str]) -> Mapping[str, Container[int]]:
        """Of those of `workers` (host:port) that answer: the ids of the tasks that they have."""

    def finish_tasks(self, worker: str, task_ids: Sequence[int]) -> None:
        """Tells the dispatcher that `worker` has finished the tasks. Idempotent. Raises grpc.RpcError."""


@dataclass(frozen=True, slots=True)
class _Tasks:
    """GetWorkerTasksResponse {1: {2: task_id, ...}}: of thousands, perhaps, and asked for few."""

    reply: bytes

    def __contains__(self, task_id: object) -> bool:
        return isinstance(task_id, int) and proto_wire.integer(2, task_id) in self.reply


class GrpcServiceRpc:
    """Messages by hand: WorkerUpdateRequest {1: worker_address, 2: {1: task_id, 2: completed}}."""

    def __init__(self) -> None:
        self._dispatcher: grpc.Channel | None = None
        self._workers: dict[str, grpc.Channel] = {}
        self.refusing: Set[str] = frozenset()
        self._refusals = Refusals()

    def dispatcher_started(self, address: str) -> None:
        """Before workers can be asked for, and tasks be finished."""
        self._dispatcher = rpc.channel(address)

    def workers(self) -> list[str]:
        """Addresses of all that ever registered with the dispatcher. Raises grpc.RpcError, ProtocolError."""
        assert self._dispatcher is not None
        reply = _method(self._dispatcher, worker_list.GET_WORKERS)(b"", timeout=_CALL_S)
        return worker_list.addresses(reply)

    def tasks(self, workers: Sequence[str]) -> dict[str, Container[int]]:
        for address in self._workers.keys() - set(workers):
            self._workers.pop(address).close()
        for address in workers:
            if address not in self._workers:
                self._workers[address] = rpc.channel(address, own_connection=True)
        calls = {
            address: _method(self._workers[address], _GET_WORKER_TASKS).future(b"", timeout=_CALL_S)
            for address in workers
        }
        found: dict[str, Container[int]] = {}
        refusing = set[str]()
        for address, call in calls.items():
            if call.exception() is None:
                found[address] = _Tasks(call.result())
            elif call.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                # The connection to a machine that was cut off answers again as long after its return as it was away.
                self._workers.pop(address).close()
            elif _is_refused(call):
                refusing.add(address)
        self.refusing = self._refusals.of(refusing)
        return found

    def finish_tasks(self, worker: str, task_ids: Sequence[int]) -> None:
        assert self._dispatcher is not None
        updates = b"".join(
            proto_wire.text(2, proto_wire.integer(1, task_id) + proto_wire.integer(2, 1)) for task_id in task_ids
        )
        _method(self._dispatcher, _WORKER_UPDATE)(proto_wire.text(1, worker) + updates, timeout=_CALL_S)

    def close(self) -> None:
        for channel in (self._dispatcher, *self._workers.values()):
            if channel is not None:
                channel.close()


def _is_refused(call: grpc.Call) -> bool:
    """Not where somebody there answered so."""
    details: str = call.details() or ""
    unavailable = call.code() is grpc.StatusCode.UNAVAILABLE
    return unavailable and details.startswith(_NO_CONNECTION) and _REFUSED in details


def _method(channel: grpc.Channel, path: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
    """A method whose messages go as they are."""
    return channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
