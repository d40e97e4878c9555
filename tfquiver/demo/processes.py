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
    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path, with_children: bool = False) -> None:
        self.name = name
        self._process = process
        self._log = log
        self._with_children = with_children

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """Its lines of JSON, until it ends. Raises UnavailableError, the end of its log as a note, when it failed."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            yield json.loads(line)
        if code := await self._process.wait():
            raise self._failed(f"ended with exit code {code}")

    async def ready(self, within_s: float = _READY_S) -> dict[str, Any]:
        """Its first line. Raises UnavailableError when it does not come."""
        try:
            async with asyncio.timeout(within_s):
                async for message in self.messages():
                    return message
        except TimeoutError:
            raise self._failed(
                f"was not ready after {within_s:.0f} s: try again when the machine is less busy"
            ) from None
        raise self._failed("ended before it was ready")

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
            if self._with_children and self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.terminate()

    async def end(self) -> None:
        """After `terminate`: returns when it has ended; kills it when that takes too long."""
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    def _failed(self, what: str) -> errors.UnavailableError:
        error = errors.UnavailableError(f"{self.name} {what}")
        error.add_note("\n".join(self._log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]))
        return error


class Processes:
    """Starts Python modules; as an async context manager it stops what it started, the last first."""

    def __init__(self, log_dir: Path, env: Mapping[str, str]) -> None:
        self._log_dir = log_dir
        self._env = {**os.environ, **env}
        self._children: list[Child] = []

    async def start(
        self, name: str, module: str, *arguments: str, listens: bool = False, with_children: bool = False
    ) -> Child:
        """`with_children`: what it has started, as compilers, is killed with it."""
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
        child = Child(name, process, log, with_children)
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
