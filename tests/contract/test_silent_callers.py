"""A caller whose machine is gone hangs up on nobody: what a server keeps for its streams goes all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.silent_machine import METHOD, Relay, serving
from tfquiver.grpc_plumbing import rpc

_FASTER = 30


class Watched:
    """A stream that says one word, and then nothing for as long as somebody listens."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def serve(self, _request: bytes, _context: Any) -> AsyncIterator[bytes]:
        try:
            yield b"hello"
            await asyncio.Event().wait()
        finally:
            self.over.set()


@pytest.fixture(autouse=True)
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [(name, value // _FASTER) for name, value in rpc._NOTICES_SILENT_CALLERS]
    monkeypatch.setattr(rpc, "_NOTICES_SILENT_CALLERS", times)


@on_loop
async def test_who_is_gone_without_a_word_holds_no_stream() -> None:
    """Coordinators kept the watches and orders of machines that had lost their power for ever."""
    watched = Watched()
    server, port = await serving(grpc.unary_stream_rpc_method_handler(watched.serve))
    async with Relay(port) as relay, rpc.aio_channel(f"127.0.0.1:{relay.port}") as channel:
        stream = channel.unary_stream(METHOD)(b"")
        assert await stream.read() == b"hello"
        relay.fall_silent()
        async with asyncio.timeout(20):
            await watched.over.wait()
        stream.cancel()
    await server.stop(None)


@pytest.mark.slow
@on_loop
async def test_who_listens_and_is_told_nothing_is_not_hung_up_on() -> None:
    watched = Watched()
    server, port = await serving(grpc.unary_stream_rpc_method_handler(watched.serve))
    async with rpc.aio_channel(f"127.0.0.1:{port}") as channel:
        stream = channel.unary_stream(METHOD)(b"")
        assert await stream.read() == b"hello"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(4 * 50 / _FASTER):
                await watched.over.wait()
        stream.cancel()
    await server.stop(None)
