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
        self._within_s, self._gone = ACK_WITHIN_S, asyncio.Event()

    def take(self, frame: frames.Frame) -> bool:
        if not isinstance(frame, frames.Delivered):
            return False
        self._delivered(frame.session_id, frame.shards)
        return True

    def on_gone(self) -> None:
        """What was said last, often the end of an epoch, is still passed on, and at once."""
        self._gone.set()

    def _delivered(self, session_id: str, shards: Sequence[int]) -> None:
        self._count += len(shards)
        if self._count > MAX_WAITING:
            raise errors.ProtocolError(f"DELIVERED frames with more than {MAX_WAITING} shards not yet passed on")
        self._waiting.setdefault(session_id, []).extend(shards)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._pass_on())

    async def _pass_on(self) -> None:
        try:
            while self._waiting:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._within_s):
                        await self._gone.wait()
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
