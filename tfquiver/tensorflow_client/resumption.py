"""The data sets of this process that can go on where their job was (`resume=True`), and where they are."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from absl import logging

from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, types_pb2

_DEADLINE_S = 30.0
_ASK_S = 3.0  # a place that is not known now is only an older backup
_END_S, _PAUSE_S = 5.0, 0.02


@dataclass(frozen=True, slots=True)
class Resumable:
    """One data set of this process. `coordinator`: its address; `token`: the cluster's, "" for none."""

    job: str
    digest_id: bytes
    session_key: str
    coordinator: str
    token: str

    def now(self) -> types_pb2.Position:
        """What its newest session has delivered. Raises UnavailableError."""
        reply = self._ask()
        return reply.position if reply else types_pb2.Position()

    def after_epoch(self) -> types_pb2.Position:
        """The same when an epoch has been read: the beginning of the next, unless something has been left unread.

        The last reader may still be on its way to be told END: waits for that, but not for long.
        """
        give_up_at = time.monotonic() + _END_S
        while True:
            reply = self._ask()
            if reply is None:
                return types_pb2.Position()
            if reply.ended:
                return types_pb2.Position(epoch=reply.position.epoch + 1)
            if reply.pending or time.monotonic() > give_up_at:
                return reply.position
            time.sleep(_PAUSE_S)

    def go_to(self, position: types_pb2.Position | None) -> coordinator_pb2.ResumeReply:
        """Its next iteration begins there; None: where the job's newest session is then. Raises UnavailableError."""
        request = coordinator_pb2.ResumeRequest(
            session_key=self.session_key, digest_id=self.digest_id, job=self.job, position=position
        )
        with self._registrar(_DEADLINE_S) as registrar:
            return registrar.resume(request)

    def _ask(self) -> coordinator_pb2.GetPositionReply | None:
        with self._registrar(_ASK_S) as registrar:
            return registrar.position(self.session_key)

    def _registrar(self, deadline_s: float) -> Registrar:
        return Registrar(self.coordinator, None, self.token, deadline_s)


_lock = threading.RLock()
_made: dict[tuple[str, bytes], Resumable] = {}


def resume(data: Resumable) -> None:
    """Goes on where the job is, and remembers the data set for `made`. Raises UnavailableError."""
    reply = data.go_to(None)
    if reply.resumed:
        logging.info(
            "job %s goes on in epoch %d: %d of %d shards have been delivered",
            data.job,
            reply.epoch,
            reply.delivered,
            reply.shards,
        )
    with _lock:
        _made[data.job, data.digest_id] = data


def forget(data: Resumable) -> None:
    """Its data set is gone. May be called by the garbage collector, wherever it happens to run."""
    with _lock:
        if _made.get((data.job, data.digest_id)) == data:
            del _made[data.job, data.digest_id]


def made() -> list[Resumable]:
    """The last one made of each job and data set, of those that are still in use."""
    with _lock:
        return list(_made.values())
