"""A node as the child of another server: started before it, gone with it, started again when it dies.

The dispatcher and the worker embed TensorFlow, which may hold the interpreter's lock for seconds; their node is
therefore a process of its own. The kernel ends it when the parent is killed (`--die_with_parent`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from absl import logging

from tfquiver import durable, errors
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint, read_endpoint
from tfquiver.service.common_to_servers import serving

_START_S = 30.0
_STOP_S = 3.0
_MAX_LINE_BYTES = 64 << 10
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.2, 5.0


class NodeChild:
    """Starts `tfquiver-node` with `arguments` in `cache_dir` and keeps it running. Lives on one event loop."""

    def __init__(self, cache_dir: Path, arguments: Sequence[str], on_ready: Callable[[NodeEndpoint], None]) -> None:
        """`on_ready` is told the endpoint after every start, the first one included."""
        self._cache_dir = cache_dir
        self._arguments = [f"--cache_dir={cache_dir}", "--die_with_parent", *arguments]
        self._on_ready = on_ready
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the node is ready. Raises UnavailableError when it does not start, with its last words."""
        await self._start()
        self._watch = asyncio.create_task(self._keep_running(), name="node child")

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL after three seconds."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        if (process := self._process) is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()

    def kill(self) -> None:
        """For a process that leaves at once: a node that hangs does not hear of that, and would keep the directory."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(_START_S):
                line = await self._spawn()
        except TimeoutError as error:
            if self._process is not None and self._process.returncode is None:
                self._process.kill()
            raise errors.UnavailableError(
                f"the node of {self._cache_dir} was not ready after {_START_S:.0f} s"
            ) from error
        if not line:
            assert self._process is not None
            code = await self._process.wait()
            raise errors.UnavailableError(
                f"the node of {self._cache_dir} did not start ({_ending(code)}): see its messages above"
            )
        self._on_ready(read_endpoint(self._cache_dir))

    async def _spawn(self) -> bytes:
        """Its ready line; empty when it ended without one."""
        await self._predecessor_gone()
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tfquiver.service.node.main",
            *self._arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            limit=_MAX_LINE_BYTES,
            env=os.environ | {serving.PARENT: str(os.getpid())},
        )
        assert process.stdout is not None
        return await process.stdout.readline()

    async def _predecessor_gone(self) -> None:
        """Waits until a node that lost its parent a moment ago has let go of the directory."""
        lock = self._cache_dir / "node.lock"
        try:
            while durable.holder(lock) is not None:
                await asyncio.sleep(0.05)
        except OSError as error:  # a link is in its place
            raise errors.from_os_error(error, str(lock)) from error

    async def _keep_running(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            assert self._process is not None
            code = await self._process.wait()
            logging.error("the node of %s ended (%s); starting it again", self._cache_dir, _ending(code))
            await asyncio.sleep(pause_s)
            try:
                await self._start()
                pause_s = _FIRST_PAUSE_S
            except (errors.TfquiverError, OSError) as error:
                pause_s = min(pause_s * 2, _LAST_PAUSE_S)
                logging.error("the node of %s does not start: %s; again in %.1f s", self._cache_dir, error, pause_s)


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
