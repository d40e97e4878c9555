"""A server behind a machine that may be gone from one moment to the next, and then hangs up on nobody."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from tfquiver.grpc_plumbing import rpc
from tfquiver.roles_and_tokens.identity import Open

METHOD = "/test.v1.Test/Call"


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


async def serving(method: Any) -> tuple[grpc.aio.Server, int]:
    """One that answers METHOD by that handler, and its port."""
    server = rpc.new_server(Open())
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.v1.Test", {"Call": method}),))
    port = rpc.listen(server, "127.0.0.1:0")
    await server.start()
    return server, port
