"""Tells the coordinator which workers the dispatcher counts on, and which of them are silent: for `tfquiver status`;
and which sessions trainers have left: the room of their data sets is for others."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable, Collection, Mapping

import grpc
from absl import logging

from tfquiver.clock import Clock, SystemClock
from tfquiver.grpc_plumbing import addresses, rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.held_up import Held
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.service_rpc import GrpcServiceRpc
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.worker_watch import WorkerWatch
from tfquiver.version import VERSION

INTERVAL_S = 2.0  # until `tfquiver status` knows that one is gone it takes two of them, or three
_CALL_S, _LEAVE_S = 2.0, 0.5
_MOST_WORKERS = 10_000  # of one report, as of all dispatchers together
_MOST_LEFT = 4096  # session keys of one report: a coordinator takes no more
_LONGEST_ADDRESS = 512  # bytes; nobody can be reached under a longer one


class WorkerReports:
    """`step` asks and tells once. Of its own: another thread than the reaper's may take it. Not thread-safe."""

    def __init__(
        self,
        port: int,
        coordinator: str,
        token: str,
        awaited: Callable[[], Collection[str]],
        left: Callable[[], Collection[str]],
        held: Callable[[], Mapping[str, Held]] = dict,
        clock: Clock | None = None,
        work_dir_id: str = "",
        former: Collection[str] = (),
    ) -> None:
        """
        Args:
          port: of the dispatcher, which runs on this machine.
          awaited: the workers with tasks that are not finished.
          left: the keys of sessions that all trainers have left.
          held: workers whose tasks may hold up trainers for nothing.
          work_dir_id: tells the coordinator that one that starts at another address is this one.
          former: workers that TensorFlow's journal has and that nobody is to miss, until one of them answers.
        """
        self._port, self._coordinator, self._awaited, self._left = port, coordinator, awaited, left
        self._held = held
        self._address, self._id, self._process = "", work_dir_id, secrets.token_hex(16)
        self._former = set(former)
        self._service = GrpcServiceRpc()
        self._service.dispatcher_started(f"localhost:{port}")
        self._watch = WorkerWatch(clock or SystemClock())
        self._channel = rpc.channel(coordinator)
        self._stub = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        self._metadata = tuple(rpc.metadata(token))

    def step(self) -> None:
        """Raises grpc.RpcError, ProtocolError."""
        workers = [one for one in self._service.workers() if len(one.encode()) <= _LONGEST_ADDRESS]
        answering = self._service.tasks(workers)
        self._former -= answering.keys()
        workers = [one for one in workers if one not in self._former]
        seen = self._watch.look(workers, answering, self._awaited())
        held = self._held()
        told = [_told(worker, silent_s, idle_s, held.get(worker)) for worker, (silent_s, idle_s) in seen.items()]
        # Not at the start: looking up a name may take its time.
        self._address = self._address or own_address(self._coordinator, self._port)
        info = coordinator_pb2.DispatcherInfo(
            address=self._address,
            workers=told[:_MOST_WORKERS],
            version=VERSION,
            id=self._id,
            process=self._process,
        )
        left_keys = sorted(self._left())[:_MOST_LEFT]
        request = coordinator_pb2.ReportDispatcherRequest(dispatcher=info, left_keys=left_keys)
        try:
            self._stub.ReportDispatcher(request, metadata=self._metadata, timeout=_CALL_S)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            logging.log_first_n(logging.INFO, "the coordinator is older: it is not told of workers", 1)

    def leave(self) -> None:
        """Says that nobody need miss this dispatcher. When nothing calls `step` any more."""
        if self._address:  # else it has told nothing
            info = coordinator_pb2.DispatcherInfo(address=self._address, version=VERSION, id=self._id)
            request = coordinator_pb2.ReportDispatcherRequest(dispatcher=info, leaves=True)
            with contextlib.suppress(grpc.RpcError):  # it is missed then, until it is back, or for a day
                self._stub.ReportDispatcher(request, metadata=self._metadata, timeout=_LEAVE_S)

    def close(self) -> None:
        self._service.close()
        self._channel.close()


def _told(worker: str, silent_s: float, idle_s: float, held: Held | None) -> coordinator_pb2.ServiceWorker:
    return coordinator_pb2.ServiceWorker(
        address=worker,
        silent_ms=int(1000 * silent_s),
        idle_ms=int(1000 * idle_s),
        unread_ms=int(1000 * held.unread_s) if held else 0,
        unread_left_ms=int(1000 * held.left_s) if held else 0,
    )


def own_address(coordinator: str, port: int) -> str:
    """Where others reach this dispatcher, as far as it can tell: its address on the way to the coordinator."""
    if coordinator.startswith("unix:"):
        return f"localhost:{port}"
    host, its_port = addresses.split(addresses.each(coordinator)[0])
    if addresses.is_loopback(host):
        return f"localhost:{port}"
    try:
        found = addresses.towards(host, its_port)
    except OSError:
        return addresses.joined(socket.gethostname(), port)
    # The coordinator's own machine may know itself as 127.0.1.1: others know it by the name that was given.
    return addresses.joined(host if addresses.is_loopback(found) else found, port)
