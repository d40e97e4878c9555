"""One split provider's connection: TICKET in, TICKET_REPLY out, one at a time.

The provider lives in tf.data's dispatcher and must not block it: a coordinator that cannot answer soon is told as a
non-fatal UNAVAILABLE, and the provider asks again.
"""

from __future__ import annotations

import asyncio
import os
from typing import Protocol

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.readers.frame_socket import FrameSocket
from tfquiver.service.node.readers.reader_calls import order_of
from tfquiver.wire import reader_frames as frames


class TicketOffice(Protocol):
    async def ticket(self, request: pb.TicketRequest) -> pb.TicketReply: ...


class TicketProvider:
    def __init__(self, office: TicketOffice) -> None:
        self._office = office
        self.socket: FrameSocket
        self._task: asyncio.Task[None] | None = None

    def on_frame(self, frame: frames.Frame, descriptors: list[int]) -> None:
        """Raises ProtocolError on a frame that does not belong here."""
        for descriptor in descriptors:
            os.close(descriptor)
        if descriptors:
            raise errors.ProtocolError(f"{type(frame).__name__} frame: it came with a descriptor")
        match frame:
            case frames.Ping():
                return
            case frames.Close():
                self.socket.bid_farewell(None)
            case frames.Ticket() if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._answer(frame))
            case _:
                raise errors.ProtocolError(f"{type(frame).__name__} frame: not expected from a ticket provider here")

    def on_gone(self) -> None:
        if self._task:
            self._task.cancel()

    def on_blocked(self, blocked: bool) -> None:
        """One small reply at a time: nothing to hold back."""

    async def _answer(self, frame: frames.Ticket) -> None:
        request = pb.TicketRequest(
            session_key=frame.session_key, provider_id=frame.provider_id, repetition=frame.repetition,
            restored=frame.asker == frames.RESTORED_PROVIDER, late=frame.asker == frames.LATE_READER,
            digest_id=frame.digest_id, job=frame.job, seed=frame.wish.seed,
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
