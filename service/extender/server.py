"""The HTTP side: two questions of kube-scheduler, and whether the process lives."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from tfquiver import errors
from tfquiver.plain_text import plain
from tfquiver.service.extender import scheduler_json
from tfquiver.service.extender.scheduler_json import Question

MAX_BODY_BYTES = 64 << 20  # five thousand machines with all that is known of them
_LONGEST = 500

Scores = Callable[[Question], Awaitable[Mapping[str, float]]]


def application(scores: Scores) -> web.Application:
    """Args:
    scores: as Advice's.
    """
    made = web.Application(client_max_size=MAX_BODY_BYTES)

    async def filter_(request: web.Request) -> web.Response:
        asked = await _question(request)
        return web.json_response(scheduler_json.filtered(asked, await scores(asked) if asked.is_required else {}))

    async def prioritize(request: web.Request) -> web.Response:
        asked = await _question(request)
        return web.json_response(scheduler_json.prioritized(asked, await scores(asked)))

    async def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    made.router.add_post("/filter", filter_)
    made.router.add_post("/prioritize", prioritize)
    made.router.add_get("/healthz", healthz)
    return made


async def _question(request: web.Request) -> Question:
    """Raises HTTPBadRequest, which says what is wrong."""
    try:
        body: Any = json.loads(await request.read())
        return scheduler_json.question(body)
    except (ValueError, RecursionError) as error:
        raise web.HTTPBadRequest(text=f"not JSON: {plain(str(error), _LONGEST)}\n") from error
    except errors.InvalidArgumentError as error:
        raise web.HTTPBadRequest(text=f"{plain(str(error), _LONGEST)}\n") from error
