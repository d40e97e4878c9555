"""What a browser is answered: one for which there is no place asks again; nothing that it asks for is a fault."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.support.aio import on_loop
from tests.unit.test_status_tables import told
from tfquiver.cli.dashboard import admission as admission_module
from tfquiver.cli.dashboard import feed as feed_module
from tfquiver.cli.dashboard.feed import Feed
from tfquiver.cli.dashboard.web_server import Log, application
from tfquiver.proto.tfquiver.v1 import coordinator_pb2

KEY = "k" * 20


def past(day: bool, jobs: list[str], digest_id: str) -> dict[str, Any]:
    request = coordinator_pb2.GetPastRequest(day=day, jobs=jobs, digest_id=bytes.fromhex(digest_id))
    return {"jobs": list(request.jobs)}


STATUS = told("name") | {"going_on": [], "store": None}


@asynccontextmanager
async def served(ask: feed_module.Ask = lambda: STATUS) -> AsyncIterator[tuple[aiohttp.ClientSession, int]]:
    """A browser that has the key, and the port."""
    feed = Feed(ask)
    runner = web.AppRunner(application(feed, past, KEY), access_log=None, logger=Log(), handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookies={f"tfquiver_key_{port}": KEY}, cookie_jar=jar) as browser:
            yield browser, port
    finally:
        await feed.close()
        await runner.cleanup()


@on_loop
async def test_a_page_for_which_there_is_no_place_says_so_and_has_one_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MOST_LOOKERS", 1)
    monkeypatch.setattr(feed_module, "REPEATED_EVERY_S", 0.0)
    monkeypatch.setattr(feed_module, "EVERY_S", 0.05)
    async with served() as (browser, port):
        events = f"http://127.0.0.1:{port}/events"
        first = await browser.get(events)
        assert (await first.content.readline()).startswith(b'data: {"coordinator"')
        async with browser.get(events) as second:
            assert (second.status, second.content_type) == (200, "text/event-stream"), "else browsers ask no more"
            data, retry = (await second.text()).strip().split("\n")
            assert retry.startswith("retry: ")
            assert "1 pages look at this dashboard already" in json.loads(data.removeprefix("data: "))["error"]
        first.close()
        async with asyncio.timeout(60):
            while True:
                async with browser.get(events) as later:
                    if b"coordinator" in await later.content.readline():
                        break


@on_loop
async def test_who_has_all_places_for_pages_makes_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MOST_LOOKERS", 3)
    monkeypatch.setattr(feed_module, "REPEATED_EVERY_S", 0.0)
    monkeypatch.setattr(feed_module, "EVERY_S", 0.05)
    async with served() as (browser, port):
        events = f"http://127.0.0.1:{port}/events"
        held = [await browser.get(events) for _ in range(3)]
        for one in held:
            await one.content.readline()
        async with browser.get(events) as fourth:
            assert "3 pages look" in await fourth.text()
        elsewhere = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
        cookies = {f"tfquiver_key_{port}": KEY}
        jar = aiohttp.CookieJar(unsafe=True)
        async with (
            aiohttp.ClientSession(cookies=cookies, cookie_jar=jar, connector=elsewhere) as other,
            other.get(events) as page,
        ):
            assert b"coordinator" in await page.content.readline()
            assert "more of yours than of others" in await held[2].text(), "the last one, which asks again later"
            assert b"coordinator" in await held[0].content.readline() + await held[0].content.readline()
        for one in held:
            one.close()


@asynccontextmanager
async def admitting(
    monkeypatch: pytest.MonkeyPatch, most: int, held: Sequence[asyncio.StreamWriter | socket.socket]
) -> AsyncIterator[tuple[web.Server, int]]:
    """A server that has so many connections at most, and its port; at the end all that are held are closed."""
    monkeypatch.setattr(admission_module, "MOST_CONNECTIONS", most)
    admission = admission_module.Admission()
    runner = web.AppRunner(application(Feed(lambda: STATUS), past, KEY, admission.asked), logger=Log())
    await runner.setup()
    server = runner.server
    assert server is not None
    listening = await asyncio.get_running_loop().create_server(lambda: admission.of(server), "127.0.0.1", 0)
    try:
        yield server, listening.sockets[0].getsockname()[1]
    finally:
        for one in held:
            one.close()
        listening.close()
        await runner.cleanup()


@on_loop
async def test_one_address_with_all_connections_makes_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    held = list[asyncio.StreamWriter]()

    async def asked(from_where: str) -> bytes:
        """Keeps its connection, if it has one."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(from_where, 0))
        held.append(writer)
        writer.write(b"GET / HTTP/1.1\r\nHost: a:1\r\n")
        try:
            return await asyncio.wait_for(reader.read(1), 0.3)
        except TimeoutError:
            return b"waits"
        except ConnectionError:
            return b""

    async with admitting(monkeypatch, 4, held) as (server, port):
        assert [await asked("127.0.0.2") for _ in range(5)] == [b"waits"] * 4 + [b""]
        assert [await asked("127.0.0.3") for _ in range(3)] == [b"waits"] * 2 + [b""], "half is its, and no more"
        assert await asked("127.0.0.2") == b"", "nobody takes turns"
        assert await asked("127.0.0.4") == b"waits"
        assert len(server.connections) == 4


@on_loop
async def test_a_connection_that_made_room_is_gone_though_it_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one address has a descriptor more with each visit of another one."""
    loop, held = asyncio.get_running_loop(), list[socket.socket]()

    def established() -> int:
        rows = (row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:])
        return sum(int(row[1].split(":")[1], 16) == port and row[3] in ("01", "08") for row in rows)

    async def full() -> socket.socket:
        """Has asked for more than buffers take."""
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        one.bind(("127.0.0.2", 0))
        one.setblocking(False)
        await loop.sock_connect(one, ("127.0.0.1", port))
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(0.3):
                while True:
                    await loop.sock_sendall(one, page)
        return one

    async with admitting(monkeypatch, 2, held) as (_, port):
        cookie = f"Cookie: tfquiver_key_{port}={KEY}"
        page = f"GET /app.js HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{cookie}\r\n\r\n".encode()
        held += [await full(), await full()]
        for _ in range(3):
            visitor, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.3", 0))
            writer.close()
            await visitor.read()
            held.append(await full())
        assert established() <= 3


@on_loop
async def test_events_of_thousands_are_packed_for_who_can_unpack_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "EVERY_S", 0.05)
    (dataset,), asked = STATUS["datasets"], count()

    def ask() -> dict[str, Any]:
        return STATUS | {"coordinator": f"c{next(asked)}", "datasets": [dataset] * 2000}

    async with served(ask) as (browser, port):
        events, pages = f"http://127.0.0.1:{port}/events", []
        for accepted in ("gzip, deflate", "identity"):
            unpacking, sent, text = zlib.decompressobj(zlib.MAX_WBITS | 16), 0, b""
            kind = {"Accept-Encoding": accepted}
            async with asyncio.timeout(60), browser.get(events, headers=kind, auto_decompress=False) as page:
                while text.count(b"\n\n") < 3:
                    some = await page.content.readany()
                    sent += len(some)
                    text += unpacking.decompress(some) if "Content-Encoding" in page.headers else some
            *whole, _ = text.split(b"\n\n")
            numbers = [int(json.loads(one.removeprefix(b"data: "))["coordinator"][1:]) for one in whole]
            assert numbers == sorted(numbers)
            pages.append(len(text) / sent)
    assert pages[0] > 8, "a tenth, or less"
    assert pages[1] == 1


HEAD = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nCookie: tfquiver_key_%d=" + KEY.encode() + b"\r\n"
HOSTS = (b"a:b", b"x:99999", b"\xc3\xa9" * 100, b"xn--\xff:1", b"[::1", b"a/b?c#d:1", b"")
ASKED = {
    b"/past?job=%ED%A0%80": 200, b"/past?job=%00&job=%FF": 200, b"/past?job=%zz%": 200, b"/past?dataset=zz": 400,
    b"/past?dataset=" + b"%D9%A1" * 64: 400, b"/../../etc/passwd": 404, b"/%2e%2e/app.js": 404, b"/app.js%00": 404,
}  # fmt: skip
HEADERS = (b"Range: bytes=5-1", b"Range: bytes=9999999999-", b"If-Modified-Since: Mon, 01 Jan 99999999999 00:00:00 GMT")
NONSENSE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n",
)


@on_loop
async def test_nothing_that_is_asked_for_is_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as (_, port):

        async def status(request: bytes) -> int:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            line = await asyncio.wait_for(reader.readline(), 20)
            writer.close()
            return int(line.split()[1])

        end = b"Connection: close\r\n\r\n"
        for host in HOSTS:
            assert await status(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n" + end) in (400, 403), host
        for path, expected in ASKED.items():
            assert await status(HEAD % (path, port, port) + end) == expected, path
        for header in HEADERS:
            assert await status(HEAD % (b"/app.js", port, port) + header + b"\r\n" + end) == 200, header
        for nonsense in NONSENSE * 10:
            assert await status(nonsense) == 400, nonsense[:20]
    assert len(caplog.messages) <= 1, "anybody can send them: once a minute is enough"
    assert all(line.isprintable() and len(line) < 400 for line in caplog.messages)


@on_loop
async def test_who_has_no_key_is_answered_once() -> None:
    """Thousands of requests at once, none of whose answers is taken, kept a place for as long as anybody liked."""
    async with served() as (_, port):
        for request in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /?key=x HTTP/1.1\r\nHost: a:b\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request * 3)
            async with asyncio.timeout(20):
                assert (await reader.read()).count(b"HTTP/1.1 4") == 1
            writer.close()
