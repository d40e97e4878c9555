"""A thread that does one thing again and again, whatever becomes of it; a task that goes on until it is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
from absl import logging

from tfquiver.log_files_and_lines.rare_lines import every_n_seconds


def attempt(name: str, step: Callable[[], object]) -> None:
    """What fails is logged: it ends neither the server nor the thread."""
    try:
        step()
    except grpc.RpcError as error:
        said = f"{error.code().name}: {error.details()}"
        every_n_seconds(logging.WARNING, "%s: %s; nothing is done meanwhile", 10, name, said, apart=name)
    except Exception:  # noqa: BLE001 - the thread's boundary
        every_n_seconds(logging.ERROR, "%s: a pass failed; trying again", 10, name, exc_info=True, apart=name)


class OwnTask:
    """Of one loop: `run` goes on until it is closed, which may be before it was started."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._run = run
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class RepeatedThread:
    """Runs `step` every `interval_s` until stopped; a failed step is logged and tried again at the next turn."""

    def __init__(self, name: str, step: Callable[[], object], interval_s: float, at_once: bool = False) -> None:
        """`at_once`: the first time when it is started, not an interval later."""
        self._name = name
        self._step = step
        self._interval_s, self._at_once = interval_s, at_once
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """It has begun its last step then; `join` waits for that."""
        self._stop.set()

    def join(self) -> None:
        """Returns when the thread has ended: within its calls' deadlines."""
        self._thread.join()

    def _run(self) -> None:
        if self._at_once:
            attempt(self._name, self._step)
        while not self._stop.wait(self._interval_s):
            attempt(self._name, self._step)


@asynccontextmanager
async def running(*threads: RepeatedThread) -> AsyncIterator[None]:
    """While in here. All are told to stop before one is waited for: their calls' deadlines do not add up."""
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.stop()
        for thread in threads:
            await asyncio.to_thread(thread.join)
