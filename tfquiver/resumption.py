"""The data sets of this process that can go on where their job was (`resume=True`), and where they are."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from absl import logging

from tfquiver.proto.tfquiver.v1 import coordinator_pb2, types_pb2
from tfquiver.registration import Registrar

_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class Resumable:
    """One data set of this process. `coordinator`: its address; `token`: the cluster's, "" for none."""

    job: str
    digest_id: bytes
    session_key: str
    coordinator: str
    token: str

    def position(self) -> coordinator_pb2.GetPositionReply | None:
        """Where its newest session is; None: nothing has been read yet. Raises UnavailableError."""
        with self._registrar() as registrar:
            return registrar.position(self.session_key)

    def go_to(self, position: types_pb2.Position | None) -> coordinator_pb2.ResumeReply:
        """Its next iteration begins there; None: where the job's newest session is then. Raises UnavailableError."""
        request = coordinator_pb2.ResumeRequest(
            session_key=self.session_key, digest_id=self.digest_id, job=self.job, position=position
        )
        with self._registrar() as registrar:
            return registrar.resume(request)

    def _registrar(self) -> Registrar:
        return Registrar(self.coordinator, None, self.token, _DEADLINE_S)


_lock = threading.Lock()
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


def made() -> list[Resumable]:
    """The last one made of each job and data set."""
    with _lock:
        return list(_made.values())
