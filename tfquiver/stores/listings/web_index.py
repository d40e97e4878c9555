"""Files that a web server's index page links to, however many: as long as it goes on answering."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

import fsspec.asyn
from fsspec.exceptions import FSTimeoutError

from tfquiver import errors
from tfquiver.stores.attempts import Transient
from tfquiver.stores.listings import web_listing
from tfquiver.stores.listings.listing_pages import MOST_S, ListingPages

_AT_ONCE = 16
_GRACE_S = 5.0  # more than it gives itself
Object = dict[str, Any]


def waits(seconds: float) -> dict[str, Any]:
    """Arguments of its sessions: for so long they wait for a connection, and for more of what comes; however long an
    index page is."""
    import aiohttp  # which not all of fsspec's packages want

    return {"timeout": aiohttp.ClientTimeout(total=None, sock_connect=seconds, sock_read=seconds)}


def objects(fs: Any, pattern: str, pages: ListingPages, run: Callable[[Callable[[float], Any]], Any]) -> list[Object]:
    """Those that match, each as `web_listing.info` has it; none where the page that would link to them is not there.

    `run`: makes each request, until it succeeds, given the seconds that it has; or raises. One that goes on has as long
    as `pages` has: its session waits for so long for more. Each file is asked for: of a hundred thousand that takes
    minutes, in requests that each have their own seconds. Raises as `info`, too.
    """
    urls: list[str] = run(lambda left_s: _all_linked(fs, pattern)) if web_listing.is_pattern(pattern) else [pattern]
    known: dict[str, Object | None] = {}  # also of one that failed half-way: None: it is not there
    while left := [url for url in urls if url not in known]:

        def some(left_s: float, left: Sequence[str] = left) -> None:
            asked = [url for url in left if url not in known]
            fsspec.asyn.sync(fs.loop, _ask, fs, asked, known, left_s, timeout=left_s + _GRACE_S)

        run(some)
        found = sum(one is not None for one in known.values())
        pages.came(str(len(known)) if len(known) < len(urls) else None, found)
    return [one for url in urls if (one := known[url]) is not None]


def _all_linked(fs: Any, pattern: str) -> list[str]:
    try:
        urls: list[str] = fsspec.asyn.sync(fs.loop, _linked, fs, pattern, timeout=MOST_S)
    except FSTimeoutError as error:
        raise errors.UnavailableError(
            f"{pattern}: the index page has not ended after {MOST_S:.0f} s, which are the limit: name its files"
        ) from error
    return urls


async def _linked(fs: Any, pattern: str) -> list[str]:
    try:
        await web_listing.headers_of(fs, pattern[: re.search("[*[]", pattern).start()].rpartition("/")[0] + "/")  # type: ignore[union-attr]
        found = await fs._glob(pattern, detail=True)
    except FileNotFoundError:
        return []
    except TimeoutError as error:
        raise Transient(f"nothing more came of the web server's index page: {error}") from error
    return [url for url, its in found.items() if its.get("type") == "file"]


async def _ask(fs: Any, urls: Sequence[str], known: dict[str, Object | None], left_s: float) -> None:
    """For a quarter of the time that it has it begins with others; then it has come on, and may be called again."""
    loop, left = asyncio.get_running_loop(), iter(urls)
    until_s = loop.time() + left_s / 4

    async def ask_on() -> None:
        for url in left:
            try:
                known[url] = await web_listing.info(fs, url)
            except FileNotFoundError:  # a link to nothing
                known[url] = None
            if loop.time() > until_s:
                return

    asking = [asyncio.ensure_future(ask_on()) for _ in range(_AT_ONCE)]
    try:
        async with asyncio.timeout(left_s):
            await asyncio.gather(*asking)
    except TimeoutError as error:
        raise Transient(f"the web server has not answered for {left_s:.0f} s") from error
    finally:  # after one that is refused, too: the others would go on, beside those of the next attempt
        for one_asked in asking:
            one_asked.cancel()
