"""Frames and bodies from a non-blocking socket; memory grows with what has come, not with what was announced."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

from tfquiver import errors
from tfquiver.service.node import data_frames as frames

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

    async def frame(self) -> frames.Frame:
        """The next one. Raises ProtocolError."""
        cls, length = frames.decode_header(bytes(await self._exactly(frames.HEADER_BYTES)))
        return frames.decode_payload(cls, await self._exactly(length))

    async def body(self, length: int) -> bytearray:
        """Raises DeadlineError when it stops coming."""
        body = bytearray()
        while len(body) < length:
            size = min(max(_PIECE_BYTES, len(body)), length - len(body))
            body += await self._in_time(self._exactly(size))
        return body

    async def skip(self, length: int) -> None:
        """As `body`, of a body that nobody wants."""
        piece = bytearray(min(_PIECE_BYTES, length))
        while length:
            view = memoryview(piece)[: min(len(piece), length)]
            got = await self._in_time(self._loop.sock_recv_into(self._sock, view))
            if not got:
                raise EOFError("the peer left in mid-body")
            length -= got

    async def _exactly(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            got = await self._loop.sock_recv_into(self._sock, view)
            if not got:
                raise EOFError("the peer has left")
            view = view[got:]
        view.release()
        return buffer

    async def _in_time(self, receiving: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(self._stall_s):
                return await receiving
        except TimeoutError as error:
            raise errors.DeadlineError(f"a body did not go on for {self._stall_s:g} s") from error
