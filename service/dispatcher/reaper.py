"""Ends the wait for workers that never return.

TensorFlow's dispatcher never takes back the tasks of a lost worker, and a client waits for every task of its epoch for
ever. The reaper calls such tasks finished in the worker's name (`WorkerUpdate`) once the epoch has been read by others
(task_table.py says when). A worker that answers at its address again is left alone. Where a worker was lost after the
end of the source's epoch, with what it had not delivered, a worker that comes or comes back is waited for: longer, but
not for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc
from absl import logging

from tfquiver.clock import Clock, SystemClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.service.dispatcher import proto_wire
from tfquiver.service.dispatcher.journal_reader import JOURNAL_DIR, JournalFollower
from tfquiver.service.dispatcher.task_table import TaskTable
from tfquiver.wire import rpc

_WORKER_UPDATE = "/tensorflow.data.DispatcherService/WorkerUpdate"
_GET_WORKER_TASKS = "/tensorflow.data.WorkerService/GetWorkerTasks"
_OP_NAME = b"QuiverDataset"
_MAX_GRAPH_BYTES = 2 << 30
_CALL_S = 2.0
_MAX_SESSIONS = 20_000


class ServiceRpc(Protocol):
    """The two internal calls of TensorFlow's service that the reaper needs."""

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


@dataclass(frozen=True, slots=True)
class UnreadKeys:
    """Of sessions in which readers were told END although not all has been read or delivered."""

    left_early: frozenset[str] = frozenset()  # by readers; others still read
    short: frozenset[str] = frozenset()  # readers were lost after the end: nobody reads it unless somebody comes


class UnreadSessions:
    """Asks the coordinator for the keys of what `Reaper` must wait for."""

    def __init__(self, coordinator: str, token: str) -> None:
        self._channel = rpc.channel(coordinator)
        self._stub = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        self._metadata = tuple(rpc.metadata(token))

    def keys(self) -> UnreadKeys:
        """Raises grpc.RpcError."""
        request = coordinator_pb2.ListSessionsRequest(unread_only=True, limit=_MAX_SESSIONS)
        reply = self._stub.ListSessions(request, metadata=self._metadata, timeout=_CALL_S)
        keyed = [session for session in reply.sessions if session.session_key]
        return UnreadKeys(
            frozenset(session.session_key for session in keyed if not session.ended),
            frozenset(session.session_key for session in keyed if session.ended),
        )

    def close(self) -> None:
        self._channel.close()


class Reaper:
    """One pass of watching per `step()`; all state is its own. Not thread-safe."""

    def __init__(
        self,
        work_dir: Path,
        service: ServiceRpc,
        worker_timeout_s: float,
        unread_keys: Callable[[], UnreadKeys] = UnreadKeys,
        return_timeout_s: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        """`unread_keys` may raise grpc.RpcError. `return_timeout_s`: in place of the other where a session is short."""
        self._work_dir = work_dir
        self._unread_keys = unread_keys
        self._service = service
        self._timeout_s, self._return_timeout_s = worker_timeout_s, return_timeout_s
        self._clock = clock or SystemClock()
        self._journal = JournalFollower(work_dir / JOURNAL_DIR)
        self._table = TaskTable()
        self._silent_since: dict[str, float] = {}
        self._graphs: dict[str, bytes] = {}  # data set id -> its graph, where a QuiverDataset is in it

    def step(self) -> dict[str, list[int]]:
        """Reads the journal, asks the workers, finishes what may be finished; returns that, by worker."""
        for update in self._journal.poll():
            self._table.apply(update)
        silent = self._service.unreachable(sorted(self._table.workers()))
        now = self._clock.now()
        self._silent_since = {worker: self._silent_since.get(worker, now) for worker in silent}
        lost = self._silent_for(self._timeout_s, now)
        self._graphs = {dataset: self._graph(dataset) for dataset in self._table.datasets()} if lost else {}
        finished = self._table.to_finish(lost, (dataset for dataset, graph in self._graphs.items() if graph))
        if finished:
            unread = self._unread_keys()
            given_up = lost & self._silent_for(self._return_timeout_s, now)
            finished = self._table.to_finish(lost, self._without(unread.left_early | unread.short))
            finished |= self._table.to_finish(given_up, self._without(unread.left_early))
        for worker, task_ids in finished.items():
            self._service.finish_tasks(worker, task_ids)
            logging.warning(
                "worker %s has not answered for %.1f s, and its epoch is at its end: finished its tasks %s",
                worker,
                now - self._silent_since[worker],
                task_ids,
            )
        return finished

    def _silent_for(self, seconds: float, now: float) -> set[str]:
        return {worker for worker, since in self._silent_since.items() if now - since >= seconds}

    def _without(self, keys: Collection[str]) -> Iterator[str]:
        """The data sets that are ours, and in the graph of which is none of these keys."""
        encoded = [key.encode() for key in keys]
        return (name for name, graph in self._graphs.items() if graph and not any(key in graph for key in encoded))

    def _graph(self, dataset_id: str) -> bytes:
        """Empty when it is none of ours."""
        if dataset_id in self._graphs:
            return self._graphs[dataset_id]
        path = self._work_dir / "datasets" / dataset_id
        if not path.is_file() or path.stat().st_size > _MAX_GRAPH_BYTES:
            return b""
        graph = path.read_bytes()
        return graph if _OP_NAME in graph else b""


class ReaperThread:
    """Runs `step` every `interval_s` until stopped; a failed step is logged and tried again at the next turn."""

    def __init__(self, step: Callable[[], object], interval_s: float) -> None:
        self._step = step
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reaper")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended: within the two calls' deadlines."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                self._step()
            except grpc.RpcError as error:
                logging.warning("reaper: %s; trying again", error.details())
            except Exception:  # noqa: BLE001 - the thread's boundary: a bad journal record must not end the watch
                logging.exception("reaper: a pass failed; trying again")
