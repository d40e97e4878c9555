"""The demo's processes: all of them end when the block ends, whatever ends it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tfquiver import errors
from tfquiver.service.common_to_servers import serving

_STOP_S = 5.0
_READY_S = 90.0
_TAIL_LINES = 15


class Child:
    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """Its lines of JSON, until it ends. Raises UnavailableError with the end of its log when it failed."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            yield json.loads(line)
        if code := await self._process.wait():
            raise errors.UnavailableError(f"{self.name} ended with exit code {code}:\n{self._log_tail()}")

    async def ready(self) -> dict[str, Any]:
        """Its first line. Raises UnavailableError when it does not come."""
        try:
            async with asyncio.timeout(_READY_S):
                async for message in self.messages():
                    return message
        except TimeoutError:
            raise errors.UnavailableError(
                f"{self.name} was not ready after {_READY_S:.0f} s:\n{self._log_tail()}"
            ) from None
        raise errors.UnavailableError(f"{self.name} ended before it was ready:\n{self._log_tail()}")

    async def done(self) -> None:
        """Returns when it has ended well."""
        async for _ in self.messages():
            pass

    def tell(self, message: dict[str, Any]) -> None:
        """Sends a line of JSON to one that was started with `listens`; lost where it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            self._process.terminate()

    async def end(self) -> None:
        """After `terminate`: returns when it has ended; kills it when that takes too long."""
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    def _log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])


class Processes:
    """Starts Python modules; as an async context manager it stops what it started, the last first."""

    def __init__(self, log_dir: Path, env: Mapping[str, str]) -> None:
        self._log_dir = log_dir
        self._env = {**os.environ, **env}
        self._children: list[Child] = []

    async def start(self, name: str, module: str, *arguments: str, listens: bool = False) -> Child:
        log = self._log_dir / f"{name}.log"
        with log.open("wb") as log_file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                module,
                *arguments,
                stdin=asyncio.subprocess.PIPE if listens else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log_file,
                env=self._env,
                start_new_session=True,  # a terminal's Ctrl-C is for the demo alone: it stops the others in order
                preexec_fn=serving.die_with_parent,
            )
        child = Child(name, process, log)
        self._children.append(child)
        return child

    async def __aenter__(self) -> Processes:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        # Readers before what they read from: trials and workers first, the store last.
        for child in reversed(self._children):
            child.terminate()
            await child.end()
