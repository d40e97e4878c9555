"""Frames and stored bodies onto a non-blocking socket: `sendfile` in a thread, waits for a slow peer on the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import Coroutine
from concurrent.futures import Executor
from typing import Any

from tfquiver import errors

_PATIENCE_MS = 50  # in the thread; a peer slower than that must not keep it
_PIECE_BYTES = 8 << 20


class BodySender:
    """One connection's. Not concurrent: its owner sends one thing at a time.

    Args:
      stall_s: a peer that takes nothing for so long is given up.
    """

    def __init__(self, sock: socket.socket, pool: Executor, stall_s: float) -> None:
        self._sock, self._pool, self._stall_s = sock, pool, stall_s

    async def send(self, frame: bytes) -> None:
        """Raises OSError when the peer has gone, DeadlineError when it does not read."""
        await self._in_time(asyncio.get_running_loop().sock_sendall(self._sock, frame))

    async def send_file(self, fd: int, offset: int, length: int) -> None:
        """As `send`. Raises DataLossError when the file ends early: nothing sensible can follow on this connection."""
        loop = asyncio.get_running_loop()
        end = offset + length
        while offset < end:
            pumping = loop.run_in_executor(self._pool, _pump, self._sock, fd, offset, end)
            try:
                sent = await asyncio.shield(pumping)
            except asyncio.CancelledError:
                # The thread uses both descriptors: they must not be closed under it.
                with contextlib.suppress(OSError):  # it may have gone by itself
                    self._sock.shutdown(socket.SHUT_RDWR)
                await asyncio.gather(pumping, return_exceptions=True)
                raise
            offset += sent
            if offset < end and not sent:
                await self._in_time(self._writable())

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._sock, _set, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._sock)

    async def _in_time(self, waiting: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(self._stall_s):  # not wait_for, which may swallow a cancellation
                await waiting
        except TimeoutError as error:
            raise errors.DeadlineError(f"the peer has taken nothing for {self._stall_s:g} s") from error


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _pump(sock: socket.socket, fd: int, offset: int, end: int) -> int:
    """Sends until the peer has taken nothing for a moment, or all is sent; returns the bytes sent."""
    start = offset
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    while offset < end:
        try:
            sent = os.sendfile(sock.fileno(), fd, offset, min(end - offset, _PIECE_BYTES))
        except BlockingIOError:
            if not poll.poll(_PATIENCE_MS):
                break
            continue
        if not sent:
            raise errors.DataLossError(f"the stored body ends {end - offset} bytes early")
        offset += sent
    return offset - start
