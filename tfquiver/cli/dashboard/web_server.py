"""The HTTP side: one page, its events, what was. Whoever has the key may look, nobody may do anything."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import zlib
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from absl import logging
from aiohttp import web

from tfquiver import errors, plain_text
from tfquiver.cli.dashboard import feed
from tfquiver.cli.dashboard.feed import Feed
from tfquiver.cli.dashboard.past_answers import AskPast, PastAnswers
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.common_to_servers import fair_places

PAGE = Path(__file__).with_name("page")
FILES = {"/": "index.html", "/app.js": "app.js", "/app.css": "app.css"}
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_FEED, _PAST = web.AppKey("feed", Feed), web.AppKey("past", PastAnswers)
_COOKIE = "tfquiver_key"
_DENIED = "open the link that `tfquiver dashboard` has printed: the key is in it\n"
_EVENTS = {"Content-Type": "text/event-stream"}
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # RFC 1952: deflated, of no date and no system
_RETRY_MS = 10_000
_MOST_JOBS = 20
_LOG_S, _LOGGED = 60.0, 200
_SEND_S = 30.0  # a browser that takes nothing for so long is let go


def application(
    shown: Feed, past: AskPast, key: str, asked: Callable[[web.Request], None] = lambda _: None
) -> web.Application:
    """`shown`: to all pages. `asked`: told of each request, before it is looked at."""
    app = web.Application(middlewares=[_guarded(key, asked)])
    app[_FEED], app[_PAST] = shown, PastAnswers(past)
    for path, name in FILES.items():
        app.router.add_get(path, _file(name))
    app.router.add_get("/events", _events, allow_head=False)
    app.router.add_get("/past", _past)
    return app


def _guarded(key: str, asked: Callable[[web.Request], None]) -> Any:
    @web.middleware
    async def guarded(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
        asked(request)
        try:
            answer = await _admitted(request, handler, key)
        except web.HTTPException as error:
            answer = web.Response(status=error.status, text=f"{error.reason}\n")
        except errors.TfquiverError as error:
            answer = web.json_response({"error": plain_text.of_error(error)}, status=502)
        except Exception:  # noqa: BLE001 - the boundary: it is nothing to the other pages
            every_n_seconds(logging.ERROR, "a page was not answered", _LOG_S, exc_info=True)
            answer = web.Response(status=500, text="a defect of tfquiver dashboard, which has logged it\n")
        if not answer.prepared:
            answer.headers.update(HEADERS)
            if answer.status >= 400:  # who asks on and on without the key, and takes no answer, keeps no place by it
                answer.force_close()
        return answer

    return guarded


async def _admitted(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]], key: str
) -> web.StreamResponse:
    try:
        name = f"{_COOKIE}_{request.url.port}"  # cookies are not of a port
    except ValueError:
        raise web.HTTPBadRequest(reason="Host: not host:port") from None
    given = request.query.get("key", "")
    if given and _same(given, key):
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(name, key, httponly=True, samesite="Lax", path="/")
        return answer
    if not _same(request.cookies.get(name, ""), key):
        return web.Response(status=403, text=_DENIED)
    return await handler(request)


class Log:
    """Takes what aiohttp says of requests that are none: anybody can send them, as many as they like."""

    def debug(self, *_: object, **__: object) -> None:
        """Of those who hang up."""

    def exception(self, message: str, *arguments: object, exc_info: object = None, **_: object) -> None:
        said = plain_text.plain(f"{message % arguments}: {type(exc_info).__name__}: {exc_info}", _LOGGED)
        every_n_seconds(logging.WARNING, "%s", _LOG_S, said)


def _same(given: str, key: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogateescape"), key.encode())


def _file(name: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    body = (PAGE / name).read_bytes()
    content_type = _TYPES[name.rpartition(".")[2]]

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=content_type, charset="utf-8")

    return answer


@lru_cache(maxsize=1)
def _plain(told: str) -> bytes:
    """An event; made once for all pages, which are told the same."""
    return f"data: {told}\n\n".encode()


@lru_cache(maxsize=1)
def _packed(told: str) -> bytes:
    """The same in a gzip stream, anywhere behind its header: of thousands of data sets less than an eighth of it. It
    refers to nothing before it, and what comes behind it to nothing in it."""
    return _deflated(_plain(told))


def _deflated(event: bytes) -> bytes:
    packing = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    return packing.compress(event) + packing.flush(zlib.Z_FULL_FLUSH)


async def _events(request: web.Request) -> web.StreamResponse:
    packed = "gzip" in request.headers.get("Accept-Encoding", "")
    answer = web.StreamResponse(headers=HEADERS | _EVENTS | ({"Content-Encoding": "gzip"} if packed else {}))
    async with contextlib.aclosing(request.app[_FEED].follow(fair_places.caller(request.remote or ""))) as news:
        try:
            told = await anext(news)
        except errors.TfquiverError as error:  # browsers ask again after an event, and never after an error
            return web.Response(headers=HEADERS | _EVENTS, text=_asks_later(error))
        await answer.prepare(request)
        begin = _GZIP_HEADER if packed else b""
        while True:
            event = begin + (_packed(told) if packed else _plain(told))
            try:
                await asyncio.wait_for(answer.write(event), _SEND_S)
            except (ConnectionError, TimeoutError):
                return answer
            begin = b""
            try:
                told = await anext(news)
            except errors.TfquiverError as error:  # others have its place
                last = _asks_later(error).encode()
                with contextlib.suppress(ConnectionError, TimeoutError):
                    await asyncio.wait_for(answer.write(_deflated(last) if packed else last), _SEND_S)
                return answer


def _asks_later(error: errors.TfquiverError) -> str:
    return f"data: {feed.trouble(error)}\nretry: {_RETRY_MS}\n\n"


async def _past(request: web.Request) -> web.StreamResponse:
    jobs, dataset = request.query.getall("job", [])[:_MOST_JOBS], request.query.get("dataset", "")
    if len(dataset) not in (0, 64) or not all(digit in "0123456789abcdef" for digit in dataset):
        raise web.HTTPBadRequest(reason="dataset: 64 hexadecimal digits")
    return web.json_response(text=await request.app[_PAST].told(request.query.get("span") == "day", jobs, dataset))
