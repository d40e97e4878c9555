"""A machine that is gone hangs up on nobody: where another server stands by it is found all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tfquiver.grpc_plumbing import rpc
from tfquiver.roles_and_tokens.identity import Open

_METHOD = "/test.v1.Test/Call"
_FASTER = 4


class Relay:
    """Passes on what is sent to a port, until it is silent: then nothing any more, and no connection ends."""

    def __init__(self, port: int) -> None:
        self._port, self._speaks = port, asyncio.Event()
        self._speaks.set()
        self._tasks = set[asyncio.Task[None]]()

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def fall_silent(self) -> None:
        self._speaks.clear()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.create_task(self._pass_on_both(reader, writer)))

    async def _pass_on_both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            await self._speaks.wait()
            back, there = await asyncio.open_connection("127.0.0.1", self._port)
            writers.append(there)
            await asyncio.gather(self._pass_on(reader, there), self._pass_on(back, writer))
        finally:
            for one in writers:
                one.transport.abort()
            await asyncio.gather(*(one.wait_closed() for one in writers), return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            await self._speaks.wait()
            writer.write(data)
        writer.close()


async def _serving(answer: bytes, after_s: float = 0.0) -> tuple[grpc.aio.Server, int]:
    async def call(_request: bytes, _context: Any) -> bytes:
        await asyncio.sleep(after_s)
        return answer

    server = rpc.new_server(Open())
    handlers = {"Call": grpc.unary_unary_rpc_method_handler(call)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.v1.Test", handlers),))
    port = rpc.listen(server, "127.0.0.1:0")
    await server.start()
    return server, port


@pytest.fixture(autouse=True)
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [(name, value // _FASTER) for name, value in rpc._NOTICES_SILENCE]
    monkeypatch.setattr(rpc, "_NOTICES_SILENCE", times)


@pytest.mark.slow
@on_loop
async def test_the_second_one_is_found_when_the_first_one_says_nothing_more() -> None:
    (first, first_port), (second, second_port) = await _serving(b"first"), await _serving(b"second")
    async with (
        Relay(first_port) as relay,
        rpc.aio_channel(f"127.0.0.1:{relay.port},127.0.0.1:{second_port}") as channel,
    ):
        call: Any = channel.unary_unary(_METHOD)
        assert await call(b"", timeout=10) == b"first"
        relay.fall_silent()
        assert await rpc.retry(lambda: call(b"", timeout=2), "call", 20) == b"second"
    await first.stop(None)
    await second.stop(None)


@pytest.mark.slow
@on_loop
async def test_who_waits_long_for_an_answer_is_not_hung_up_on_for_asking_whether_somebody_is_there() -> None:
    server, port = await _serving(b"late", after_s=6.0)
    async with rpc.aio_channel(f"127.0.0.1:{port},127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary(_METHOD)
        assert await call(b"", timeout=20) == b"late"
    await server.stop(None)
