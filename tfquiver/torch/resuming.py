"""An epoch that several readers had in their hands, gone on with by as many: each record of it once in all.

No reader knows what the others had. So each says, for a session that they will share, which shards were its own, done
or begun (nobody is given those); goes on alone with what it had begun; and reads in the shared session only when all of
them have said so. That a reader has said it is seen by the session of what it had begun, which it opens after that.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tfquiver import errors
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.reader.native import Opening
from tfquiver.reader.records import Records
from tfquiver.server_reachability.greeting import greeted
from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.torch import positions

_SAID_S = 60.0  # until what was said is known at the coordinator
_ALL_S = 600.0  # until all have come: ranks may start minutes apart
_CALL_S = 10.0
_PAUSE_S, _LONG_PAUSE_S = 0.02, 0.5
_MOST_ASKED_PER_S = 200  # by all readers together
_PROVIDER = "all:0"


@dataclass(frozen=True, slots=True)
class Resumed:
    """One resumed epoch, as all of its `readers` name it."""

    records: Records
    name: str
    readers: int

    @property
    def _key(self) -> str:
        return f"{self.records.session_key}:again-{self.name}"

    @property
    def _left_key(self) -> str:
        return f"{self.records.session_key}:left-{self.name}"

    @property
    def _longest_pause_s(self) -> float:
        return max(_LONG_PAUSE_S, self.readers / _MOST_ASKED_PER_S)

    def shared(self, opening: Opening) -> Opening:
        """What is left for all."""
        return replace(opening, session_key=self._key, provider_id=_PROVIDER)

    def left(self, opening: Opening, here: bytes) -> Opening:
        """What this reader had begun. To be opened when it has `say`d what is its own."""
        return replace(
            opening, session_key=self._left_key, provider_id="", in_turn=False, position=here or None,
            begun_of_shards=self.records.num_shards,
        )  # fmt: skip

    def say(self, own: bytes, opening: Opening) -> None:
        """These shards (a compressed bitmap) are nobody's any more. Returns when the coordinator knows.

        Raises UnavailableError.
        """
        shards = positions.shards_of(own)
        session_id = self._ticket(opening)
        if not shards or not session_id:  # "": all of the session has been said already
            return
        with self._connected(frames.ROLE_DELIVERIES) as send:
            for at in range(0, len(shards), frames.MAX_INDEXES):
                send(frames.Delivered(session_id, tuple(shards[at : at + frames.MAX_INDEXES])))
            self._await_known(own)

    def await_all(self) -> None:
        """Returns when every reader has said what was its own. Raises UnavailableError: some did not come."""
        give_up_at, pause_s, seen = time.monotonic() + _ALL_S, _PAUSE_S, 0
        with self._registrar() as registrar:
            while True:
                seen = registrar.sessions(self._left_key, self.readers)
                if seen >= self.readers:
                    return
                if time.monotonic() > give_up_at:
                    raise errors.UnavailableError(
                        f"{seen} of {many(self.readers, 'reader')} of this epoch have come within {_ALL_S:.0f} s: "
                        "go on "
                        "with as many ranks and workers as there were, each with its own state"
                    )
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, self._longest_pause_s)

    def _await_known(self, own: bytes) -> None:
        give_up_at, pause_s = time.monotonic() + _SAID_S, _PAUSE_S
        with self._registrar() as registrar:
            while True:
                reply = registrar.position(self._key) or coordinator_pb2.GetPositionReply()
                if positions.has_all(reply.position.done_bitmap, own):
                    return
                if time.monotonic() > give_up_at:
                    raise errors.UnavailableError(
                        f"the coordinator at {self.records.coordinator} has not taken within {_SAID_S:.0f} s what has "
                        "been read of the epoch"
                    )
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, self._longest_pause_s)

    def _ticket(self, opening: Opening) -> str:
        job = str(opening.options.get("job", ""))
        wish = frames.Wish(seed=int(str(opening.options.get("seed", 0))))
        ticket = frames.Ticket(self._key, _PROVIDER, 0, frames.PROVIDER, self.records.digest_id, job, wish)
        give_up_at = time.monotonic() + _SAID_S
        while True:
            with self._connected(frames.ROLE_TICKETS) as send:
                answer = send(ticket, True)
            if isinstance(answer, frames.TicketReply):
                return answer.session_id
            said = answer.message if isinstance(answer, frames.Error) else "no ticket"
            if not isinstance(answer, frames.Error) or answer.fatal or time.monotonic() > give_up_at:
                raise errors.UnavailableError(f"the node gives no ticket for the epoch: {said}")
            time.sleep(_PAUSE_S)

    @contextlib.contextmanager
    def _connected(self, role: int) -> Iterator[_Send]:
        endpoint = self.records.where.acquire()
        try:
            connection, _ = greeted(endpoint.socket, _CALL_S, role)
            with connection:
                yield _Send(connection)
        except OSError as error:
            raise errors.UnavailableError(f"the node at {endpoint.socket} does not answer: {error}") from error
        finally:
            self.records.where.release()

    def _registrar(self) -> Registrar:
        return Registrar(self.records.coordinator, None, self.records.token, _SAID_S)


@dataclass(frozen=True, slots=True)
class _Send:
    connection: socket.socket

    def __call__(self, frame: frames.Frame, answered: bool = False) -> frames.Frame | None:
        self.connection.send(frames.encode(frame))
        return frames.decode(self.connection.recv(frames.MAX_FRAME_BYTES)) if answered else None
