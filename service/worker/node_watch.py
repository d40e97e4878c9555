"""Notices that the worker's node stays away: then nothing of its part of an epoch would be read, and nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from absl import logging

from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.server_reachability.greeting import greeted

_PAUSE_S = 2.0
_ANSWER_S = 5.0  # as long as others wait for the first frames


async def stays_away(socket_path: Callable[[], str], away_s: float) -> str:
    """Returns why, once nobody has answered at the node's socket for so long. A time in which this process was stopped,
    or had no turn, counts for one attempt at most.
    """
    loop = asyncio.get_running_loop()
    pause_s, silent_s = min(_PAUSE_S, away_s / 4), 0.0
    while True:
        began = loop.time()
        try:
            connection, _ = await asyncio.to_thread(greeted, socket_path(), min(_ANSWER_S, away_s))
        except OSError as error:
            silent_s += min(loop.time() - began, _ANSWER_S) + pause_s
            every_n_seconds(logging.WARNING, "the node at %s: %s", 10, socket_path(), error)
            if silent_s >= away_s:
                return str(error)
        else:
            connection.close()
            silent_s = 0.0
        await asyncio.sleep(pause_s)
