"""Frames and stored bodies onto a non-blocking socket: `sendfile` in a thread, waits for a slow peer on the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

from tfquiver import errors

T = TypeVar("T")
MIN_BYTES_PER_S = 64 << 10
_PATIENCE_MS = 50  # in the thread, for all bodies of one call; a peer slower than that must not keep it
_PIECE_BYTES = 8 << 20


@dataclass(slots=True)
class Body:
    """What is still to be sent: a frame, then bytes of a file. Owns `fd`."""

    frame: bytes
    fd: int
    offset: int
    end: int

    @property
    def sent(self) -> bool:
        return not self.frame and self.offset == self.end

    def close(self) -> None:
        os.close(self.fd)


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

    async def send_bodies(self, bodies: Iterator[Body]) -> None:
        """Sends one body after the other; `bodies` runs in a thread, for it may wait for the disk.

        Raises as `send`; and DataLossError when a file ends early: nothing sensible can follow on this connection.
        """
        stuck = await self._in_thread(_pump_all, self._sock, bodies)
        while stuck is not None:
            try:
                await self._send_slowly(stuck)
            finally:
                stuck.close()
            stuck = await self._in_thread(_pump_all, self._sock, bodies)

    async def _send_slowly(self, body: Body) -> None:
        """To a peer that takes less than there is: it is waited for on the loop, and no thread is kept for it."""
        loop = asyncio.get_running_loop()
        since_s, from_offset = loop.time(), body.offset
        while not body.sent:
            await self._in_time(self._writable())
            await self._in_thread(_pump, self._sock, body, 0)
            if (passed_s := loop.time() - since_s) >= self._stall_s:
                if body.offset - from_offset < MIN_BYTES_PER_S * passed_s and not body.sent:
                    raise errors.DeadlineError(f"the peer takes less than {MIN_BYTES_PER_S} bytes a second")
                since_s, from_offset = loop.time(), body.offset

    async def _in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The thread uses both descriptors: they must not be closed under it.
            with contextlib.suppress(OSError):  # the peer may have gone by itself
                self._sock.shutdown(socket.SHUT_RDWR)
            (outcome,) = await asyncio.gather(running, return_exceptions=True)
            if isinstance(outcome, Body):
                outcome.close()
            raise

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


def _pump_all(sock: socket.socket, bodies: Iterator[Body]) -> Body | None:
    """Sends until the peer has been waited for long enough (returns what it is stuck at), or all are sent."""
    patience_ms = float(_PATIENCE_MS)
    for body in bodies:
        try:
            patience_ms = _pump(sock, body, patience_ms)
        except BaseException:
            body.close()
            raise
        if not body.sent:
            return body
        body.close()
    return None


def _pump(sock: socket.socket, body: Body, patience_ms: float) -> float:
    """Sends until the peer has been waited for so long, or all is sent; what is left of the patience."""
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    while not body.sent:
        try:
            if body.frame:
                body.frame = body.frame[sock.send(body.frame, socket.MSG_MORE) :]
                continue
            sent = os.sendfile(sock.fileno(), body.fd, body.offset, min(body.end - body.offset, _PIECE_BYTES))
        except BlockingIOError:
            before_s = time.monotonic()
            if patience_ms <= 0 or not poll.poll(patience_ms):
                return 0.0
            patience_ms -= (time.monotonic() - before_s) * 1000
            continue
        if not sent:
            raise errors.DataLossError(f"the stored body ends {body.end - body.offset} bytes early")
        body.offset += sent
    return patience_ms
