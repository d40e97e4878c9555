"""The slow store as a whole, before an upstream of this test."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tfquiver.testing.throttled_store import ThrottledStore


class Upstream:
    """Answers nobody until so many ask at once that more cannot be meant to."""

    def __init__(self) -> None:
        self.now, self.most = 0, 0
        self.full = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now == 4:
            self.full.set()
        await reader.readuntil(b"\r\n\r\n")
        await self.full.wait()
        self.now -= 1
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        await writer.drain()
        writer.close()


async def get(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /download/x HTTP/1.1\r\n\r\n")
    reply = await reader.readuntil(b"hi")
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return reply


def test_the_emulator_is_not_asked_by_more_than_it_has_room_for() -> None:
    async def steps() -> None:
        upstream = Upstream()
        server = await asyncio.start_server(upstream.answer, "127.0.0.1", 0)
        store = ThrottledStore(server.sockets[0].getsockname()[1], 0)
        port = await store.start()
        async with asyncio.timeout(30):
            replies = await asyncio.gather(*(get(port) for _ in range(20)))
        assert all(reply.endswith(b"hi") for reply in replies)
        assert upstream.most == 4
        assert store.traffic.payload_bytes == 40
        await store.stop()
        server.close()
        await server.wait_closed()

    asyncio.run(steps())
