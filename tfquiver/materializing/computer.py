"""Computes shards of a derived data set that are missing, while this process reads it: asked by its node."""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator

import grpc
from absl import logging

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.materializing.derivation import Derivation
from tfquiver.materializing.making import Making
from tfquiver.materializing.remembered_rows import RememberedRows
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2_grpc

_AGAIN_S, _LONGEST_S = 0.2, 5.0
_END_S = 10.0
_LOOK_S = 0.25
_PART_BYTES = 1 << 20


class Computer:
    """Two threads, from `start` to `close`, or until `user` is gone.

    Args:
      control: where the node's control service is now, on this machine; may raise UnavailableError.
    """

    def __init__(
        self,
        making: Making,
        derivation: Derivation,
        digest_id: bytes,
        control: Callable[[], str],
        token: str,
        user: object,
    ) -> None:
        self._user = weakref.finalize(user, _nothing)
        self._user.atexit = False
        self._making, self._derivation, self._digest_id = making, derivation, digest_id
        self._control, self._metadata = control, tuple(rpc.metadata(token))
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._call: grpc.Call | None = None
        self._rows = RememberedRows(lambda row: making.make(row, self._stop.wait))
        self._thread = threading.Thread(target=self._run, name="tfquiver computes", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="tfquiver computes for", daemon=True)

    def start(self) -> None:
        with _lock:
            _running.add(self)
        self._thread.start()
        self._watcher.start()

    def close(self, wait: bool = False) -> None:
        """Harmless when repeated. Not for the garbage collector: it takes locks."""
        self._stop.set()
        call = self._call
        if call is not None:
            call.cancel()
        if wait:
            self._thread.join(_END_S)

    def _watch(self) -> None:
        """Sees that nobody uses it any more. Nothing is done as they go: that is where the garbage collector runs."""
        while not self._stop.wait(_LOOK_S):
            if not self._user.alive:
                self.close()

    def _run(self) -> None:
        pause_s = _AGAIN_S
        while not self._stop.wait(0 if pause_s == _AGAIN_S else pause_s):
            try:
                self._serve()
                pause_s = _AGAIN_S
            except (grpc.RpcError, errors.TfquiverError) as error:
                if self._stop.is_set():
                    break
                every_n_seconds(logging.INFO, "computing for the node: %s; again soon", 60, error)
            pause_s = min(2 * pause_s, _LONGEST_S)
        self._making.close_mine()
        with _lock:
            _running.discard(self)

    def _serve(self) -> None:
        answers: queue.SimpleQueue[pb.ComputedDerived | None] = queue.SimpleQueue()
        answers.put(pb.ComputedDerived(digest_id=self._digest_id))
        with rpc.channel(self._control()) as channel:
            call = node_pb2_grpc.NodeStub(channel).ComputeDerived(iter(answers.get, None), metadata=self._metadata)
            self._call = call
            try:
                if self._stop.is_set():
                    return
                for asked in call:
                    for answer in self._answer(asked):
                        answers.put(answer)
            finally:
                self._call = None
                answers.put(None)
                call.cancel()

    def _answer(self, asked: pb.ComputeDerivedRequest) -> Iterator[pb.ComputedDerived]:
        number = asked.request
        try:
            data = memoryview(self._made(asked.shard))
        except errors.TfquiverError as error:
            yield pb.ComputedDerived(
                request=number, last=True, error_code=errors.code_number(error), error=str(error)[:1000]
            )
            return
        except Exception as error:  # noqa: BLE001 - the user's function, TensorFlow: the node asks another
            logging.exception("computing shard %d", asked.shard)
            text = f"{type(error).__name__}: {error}"[:1000]
            yield pb.ComputedDerived(request=number, last=True, error_code=13, error=text)
            return
        for at in range(0, len(data), _PART_BYTES):
            end = at + _PART_BYTES
            yield pb.ComputedDerived(request=number, part=bytes(data[at:end]), last=end >= len(data))

    def _made(self, shard: int) -> bytes:
        if not 0 <= shard < self._derivation.shards:
            raise errors.InvalidArgumentError(f"there is no shard {shard}")
        row, part = self._derivation.origin(shard)
        made = self._rows.part(row, part)
        if made is None:
            raise errors.StaleDigestError(f"shard {shard}: the function makes fewer parts of its records by now")
        return made.data


def _nothing() -> None:
    pass


_lock = threading.Lock()
_running: set[Computer] = set()


def close_all() -> None:
    """Returns when the threads have ended."""
    with _lock:
        running = list(_running)
    for one in running:
        one.close()
    for one in running:
        one.close(wait=True)


def _leave_to_parent() -> None:
    """In a forked child: the threads are the parent's, and one may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _running.clear()


def _found(name: str, endpoint: object) -> None:
    """The node was found again: its computers come by themselves."""


endpoints.tell(_found, close_all)
os.register_at_fork(after_in_child=_leave_to_parent)
