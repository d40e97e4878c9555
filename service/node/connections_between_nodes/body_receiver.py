"""Frames and bodies from a non-blocking socket; memory grows with what has come, not with what was announced."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

from tfquiver import errors
from tfquiver.service.node.connections_between_nodes import data_frames as frames

T = TypeVar("T")
_PIECE_BYTES = 1 << 20


class BodyReceiver:
    """One connection's. Raises EOFError when the peer has left.

    Args:
      stall_s: a body that does not go on for so long is given up. Between frames a peer may be silent.
    """

    def __init__(self, sock: socket.socket, stall_s: float) -> None:
        self._sock, self._stall_s = sock, stall_s
        self._loop = asyncio.get_running_loop()

    async def frame(self, only: type[frames.Frame] | None = None) -> frames.Frame:
        """The next one. Raises ProtocolError; when it is not what may `only` come, before its payload is read."""
        cls, length = frames.decode_header(bytes(await self._exactly(frames.HEADER_BYTES)))
        if only not in (None, cls):
            raise errors.ProtocolError(f"the first frame is {cls.__name__}, not {only.__name__ if only else ''}")
        return frames.decode_payload(cls, await self._exactly(length))

    async def body(self, length: int) -> bytes:
        """Raises DeadlineError when it stops coming, or trickles: each piece has to come in time."""
        pieces = []
        while length:
            pieces.append(await self._in_time(self._exactly(min(_PIECE_BYTES, length))))
            length -= len(pieces[-1])
        return b"".join(pieces)

    async def skip(self, length: int) -> None:
        """As `body`, of a body that nobody wants."""
        piece = bytearray(min(_PIECE_BYTES, length))
        while length:
            view = memoryview(piece)[: min(len(piece), length)]
            await self._in_time(self._filled(view))
            length -= len(view)

    async def _exactly(self, size: int) -> bytearray:
        buffer = bytearray(size)
        await self._filled(memoryview(buffer))
        return buffer

    async def _filled(self, view: memoryview) -> None:
        while view:
            got = await self._loop.sock_recv_into(self._sock, view)
            if not got:
                raise EOFError("the peer has left")
            view = view[got:]

    async def _in_time(self, receiving: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(self._stall_s):
                return await receiving
        except TimeoutError as error:
            raise errors.DeadlineError(f"a body did not go on for {self._stall_s:g} s") from error
