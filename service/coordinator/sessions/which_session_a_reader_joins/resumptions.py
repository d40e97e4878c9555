"""Which data sets go on with what their job's last client left. Pure; see docs/decisions/0010-resume.md.

A client asks for its data set, by session key. The next session of that key then begins where the job's newest one is,
and takes that one over. Until the session that was made so has ended, further iterations of the same key go on with
it in turn: a first iteration is often only a look at one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.sessions.bitmap import Bitmap
from tfquiver.service.coordinator.sessions.session import Session

MAX_ASKED = 10_000
MAX_EPOCH = 1 << 53  # a job says where it goes on; the epochs that follow must have numbers, too
MAX_ASKED_BYTES = 64 << 20  # a position is up to 0.6 MB for 5 million shards, and all of them are in every snapshot


@dataclass(frozen=True, slots=True)
class Start:
    """Where a new session begins. `takes_over`: a session id, or ""."""

    position: types_pb2.Position
    takes_over: str

    def at(self, done_bitmap: bytes) -> Start:
        position = types_pb2.Position(epoch=self.position.epoch, done_bitmap=done_bitmap, seed=self.position.seed)
        return Start(position, self.takes_over)

    def apply(self, created: log_pb2.SessionCreated) -> None:
        created.epoch, created.done_bitmap = self.position.epoch, self.position.done_bitmap
        created.seed = self.position.seed or created.seed
        created.takes_over, created.resumed = self.takes_over, True


class Resumptions:
    def __init__(self, sessions: Mapping[str, Session]) -> None:
        """`sessions`: all there are, by id, oldest first; shared with the caller, who changes them."""
        self._sessions = sessions
        self._asked: dict[str, log_pb2.ResumeAsked] = {}
        self._bytes = 0

    def ask(self, asked: log_pb2.ResumeAsked) -> None:
        self._drop(asked.session_key)
        self._asked[asked.session_key] = asked
        self._bytes += asked.ByteSize()
        while len(self._asked) > MAX_ASKED or (self._bytes > MAX_ASKED_BYTES and len(self._asked) > 1):
            self._drop(next(iter(self._asked)))

    def begun(self, created: log_pb2.SessionCreated) -> None:
        """The session that was asked for has been made."""
        asked = self._asked.get(created.session_key)
        if asked is not None:
            begun = log_pb2.ResumeAsked()
            begun.CopyFrom(asked)  # a snapshot may be reading the other one
            begun.session_id = created.session_id
            begun.ClearField("position")  # from here on the session knows better
            self._asked[created.session_key] = begun
            self._bytes += begun.ByteSize() - asked.ByteSize()

    def _drop(self, session_key: str) -> None:
        asked = self._asked.pop(session_key, None)
        self._bytes -= asked.ByteSize() if asked else 0

    def start(self, session_key: str, digest_id: bytes, restored: bool = False) -> Start | None:
        """None: the next session of this key is a new epoch. `restored`: by a provider of a restarted dispatcher."""
        asked = self._asked.get(session_key)
        if asked is None or asked.digest_id != digest_id:
            return None
        if asked.session_id:
            begun = self._sessions.get(asked.session_id)
            # A restored provider with no session to adopt was abandoned: it takes nothing from the others of its key.
            if begun is None or begun.ended or restored or not begun.unfinished:
                return None
            return Start(position_of(begun), begun.session_id)
        newest = self.newest(asked.job, digest_id)
        takes_over = newest.session_id if newest and newest.unfinished else ""
        if asked.HasField("position"):
            return Start(asked.position, takes_over)
        return Start(position_of(newest), takes_over) if newest and takes_over else None

    def newest(self, job: str, digest_id: bytes) -> Session | None:
        return _newest(s for s in self._sessions.values() if s.job == job and s.digest_id == digest_id)

    def newest_of_key(self, session_key: str) -> Session | None:
        """Behind a `repeat` the next epoch opens while buffers still hold the end of the last: until something of the
        next one has been delivered, the last one says more."""
        of_key = [s for s in self._sessions.values() if s.session_key == session_key]
        newest = _newest(of_key)
        if newest is None or newest.delivered().count:
            return newest
        before = _newest(s for s in of_key if s.number < newest.number)
        return before if before and before.ended and before.delivered().count < before.shards else newest

    def still(self) -> Callable[[], Iterator[log_pb2.CommitRecord]]:
        """For a snapshot, after the sessions: what gives the records as of now, in any thread."""
        asked_now = list(self._asked.values())
        return lambda: (log_pb2.CommitRecord(resume_asked=asked) for asked in asked_now)


def position_of(session: Session) -> types_pb2.Position:
    return types_pb2.Position(epoch=session.epoch, done_bitmap=session.delivered().compressed(), seed=session.seed)


def check_position(position: types_pb2.Position, shards: int) -> None:
    """Raises InvalidArgumentError when it is not one in a data set of so many shards."""
    if position.epoch > MAX_EPOCH:
        raise errors.InvalidArgumentError(f"position.epoch: {position.epoch} is more than {MAX_EPOCH}")
    Bitmap.from_compressed(position.done_bitmap, shards)


def _newest(sessions: Iterable[Session]) -> Session | None:
    return max((s for s in sessions if not s.taken_over), key=lambda session: session.number, default=None)
