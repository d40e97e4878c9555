"""The HTTP side: one page, its events, what was. Whoever has the key may look, nobody may do anything."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from aiohttp import web

from tfquiver import errors, plain_text
from tfquiver.cli.dashboard.feed import Feed
from tfquiver.cli.dashboard.past_answers import AskPast, PastAnswers

PAGE = Path(__file__).with_name("page")
FILES = {"/": "index.html", "/app.js": "app.js", "/app.css": "app.css"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_COOKIE = "tfquiver_key"
_DENIED = "open the link that `tfquiver dashboard` has printed: the key is in it\n"
_MOST_JOBS = 20
_SEND_S = 30.0  # a browser that takes nothing for so long is let go


def application(
    feed: Feed, past: AskPast, key: str, asked: Callable[[web.Request], None] = lambda _: None
) -> web.Application:
    """`asked`: told of each request, before it is looked at."""
    app = web.Application(middlewares=[_guarded(key, asked)])
    app["feed"], app["past"] = feed, PastAnswers(past)
    for path in FILES:
        app.router.add_get(path, _file)
    app.router.add_get("/events", _events)
    app.router.add_get("/past", _past)
    return app


def _guarded(key: str, asked: Callable[[web.Request], None]) -> Any:
    @web.middleware
    async def guarded(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
        asked(request)
        name = f"{_COOKIE}_{request.url.port}"  # cookies are not of a port
        given = request.query.get("key", "")
        if given and _same(given, key):
            answer: web.StreamResponse = web.Response(status=303, headers={"Location": "/"})
            answer.set_cookie(name, key, httponly=True, samesite="Lax", path="/")
        elif not _same(request.cookies.get(name, ""), key):
            answer = web.Response(status=403, text=_DENIED)
        else:
            try:
                answer = await handler(request)
            except web.HTTPException as error:
                answer = web.Response(status=error.status, text=f"{error.reason}\n")
            except errors.TfquiverError as error:
                answer = web.json_response({"error": plain_text.of_error(error)}, status=502)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    return guarded


def _same(given: str, key: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogateescape"), key.encode())


async def _file(request: web.Request) -> web.StreamResponse:
    return web.FileResponse(PAGE / FILES[request.path])


async def _events(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers=HEADERS | {"Content-Type": "text/event-stream"})
    async with aclosing(request.app["feed"].follow()) as news:
        told = await anext(news)
        await answer.prepare(request)
        while True:
            try:
                await asyncio.wait_for(answer.write(f"data: {told}\n\n".encode()), _SEND_S)
            except (ConnectionError, TimeoutError):
                return answer
            told = await anext(news)


async def _past(request: web.Request) -> web.StreamResponse:
    jobs, dataset = request.query.getall("job", [])[:_MOST_JOBS], request.query.get("dataset", "")
    if len(dataset) not in (0, 64) or not all(digit in "0123456789abcdef" for digit in dataset):
        raise web.HTTPBadRequest(reason="dataset: 64 hexadecimal digits")
    return web.json_response(text=await request.app["past"].told(request.query.get("span") == "day", jobs, dataset))
