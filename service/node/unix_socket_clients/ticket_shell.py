"""One split provider's connection: TICKET in, TICKET_REPLY out, one at a time.

The provider lives in tf.data's dispatcher and must not block it: a coordinator that cannot answer soon is told as a
non-fatal UNAVAILABLE, and the provider asks again.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from tfquiver import errors
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.reader_sessions.reader_calls import order_of
from tfquiver.service.node.unix_socket_clients.shell import Shell


class TicketOffice(Protocol):
    async def ticket(self, request: pb.TicketRequest) -> pb.TicketReply: ...


class TicketProvider(Shell):
    peer = "a ticket provider"

    def __init__(self, office: TicketOffice) -> None:
        self._office = office
        self._task: asyncio.Task[None] | None = None

    def take(self, frame: frames.Frame) -> bool:
        if not isinstance(frame, frames.Ticket) or self._task is not None:
            return False
        self._task = asyncio.get_running_loop().create_task(self._answer(frame))
        return True

    def on_gone(self) -> None:
        if self._task:
            self._task.cancel()

    async def _answer(self, frame: frames.Ticket) -> None:
        request = pb.TicketRequest(
            session_key=frame.session_key, provider_id=frame.provider_id, repetition=frame.repetition,
            restored=frame.asker == frames.RESTORED_PROVIDER, late=frame.asker == frames.LATE_READER,
            joins=frame.asker == frames.JOINER, digest_id=frame.digest_id, job=frame.job, seed=frame.wish.seed,
            homogeneous=frame.wish.homogeneous, order=order_of(frame.wish),
        )  # fmt: skip
        answer: frames.Frame
        try:
            reply = await self._office.ticket(request)
            answer = frames.TicketReply(reply.end, reply.session_id)
        except (errors.UnavailableError, errors.DeadlineError) as error:
            answer = frames.error(error, fatal=False)
        except errors.TfquiverError as error:
            answer = frames.error(error, fatal=True)
        self._task = None
        self.socket.send(answer)
