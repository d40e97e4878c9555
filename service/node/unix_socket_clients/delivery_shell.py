"""One trainer's connection for what it has been delivered: DELIVERED in, acknowledgements to the coordinator out.

Nothing is answered: an acknowledgement that is lost costs a duplicate, which the trainer drops. When the coordinator
stays away the connection is closed, and the trainer says the last things again on the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from absl import logging

from tfquiver import errors
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.reader_sessions.reader_calls import ACK_WITHIN_S, ack_within_s
from tfquiver.service.node.unix_socket_clients.shell import Shell

MAX_ACKS = 16384
MAX_WAITING = 1 << 20


class Acks(Protocol):
    async def ack(self, request: pb.AckRequest) -> pb.AckReply: ...


class Deliveries(Shell):
    peer = "a trainer's end"

    def __init__(self, coordinator: Acks) -> None:
        self._coordinator = coordinator
        self._waiting: dict[str, list[int]] = {}
        self._count = 0
        self._task: asyncio.Task[None] | None = None
        self._within_s, self._is_gone = ACK_WITHIN_S, False
        self._go, self._goes_at = asyncio.Event(), 0.0  # what waits, by then, or when that is set

    def take(self, frame: frames.Frame) -> bool:
        if not isinstance(frame, frames.Delivered):
            return False
        self._delivered(frame.session_id, frame.shards)
        return True

    def on_gone(self) -> None:
        """What was said last, often the end of an epoch, is still passed on, and at once."""
        self._is_gone = True
        self._go.set()

    def heartbeat_goes(self, next_s: float) -> None:
        """A message goes to the coordinator, which what would not wait for the next one, in so long, joins: of its own
        it costs the coordinator an eighth of a millisecond more."""
        if self._waiting and asyncio.get_running_loop().time() + next_s > self._goes_at:
            self._go.set()

    def _delivered(self, session_id: str, shards: Sequence[int]) -> None:
        self._count += len(shards)
        if self._count > MAX_WAITING:
            raise errors.ProtocolError(f"DELIVERED frames with more than {MAX_WAITING} shards not yet passed on")
        self._waiting.setdefault(session_id, []).extend(shards)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._pass_on())

    async def _pass_on(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            while self._waiting:
                if not self._is_gone:
                    self._go.clear()
                self._goes_at = loop.time() + self._within_s
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(self._goes_at):
                        await self._go.wait()
                for session_id in list(self._waiting):  # none of them waits for the others
                    await self._acknowledge(session_id)
        except errors.TfquiverError as error:
            self._waiting.clear()
            self._count = 0
            self.socket.bid_farewell(frames.error(error, fatal=True))
        finally:
            self._task = None

    async def _acknowledge(self, session_id: str) -> None:
        """All that waits now. Raises TfquiverError."""
        waiting = self._waiting.pop(session_id)
        for at in range(0, len(waiting), MAX_ACKS):
            shards = waiting[at : at + MAX_ACKS]
            self._count -= len(shards)
            try:
                reply = await self._coordinator.ack(pb.AckRequest(session_id=session_id, shards=shards))
                self._within_s = ack_within_s(reply)
            except errors.NotFoundError:
                logging.info("session %s has expired: what was delivered of it is not kept", session_id)
