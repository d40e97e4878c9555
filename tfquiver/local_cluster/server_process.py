"""One server as a child: its messages in a log, ready when it says so, gone with the process that started it."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from tfquiver import errors
from tfquiver.log_files_and_lines import kept_short, log_file
from tfquiver.service.common_to_servers import begun_apart

READY_S = 300.0  # importing TensorFlow on a busy machine takes minutes
_STOP_S = 8.0
_KILLED_S = 3.0
_MAX_LINE_BYTES = 64 << 10
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class ServerProcess:
    """Lives on one event loop, in the main thread.

    The child has a session of its own, so that a terminal's Ctrl-C is for its parent alone, which stops the servers in
    order; the kernel ends it when its parent is killed.
    """

    def __init__(self, process: asyncio.subprocess.Process, log: Path, began_bytes: int) -> None:
        """`began_bytes`: so long the log was: what is in front of it others have said."""
        self._process, self._log, self._began_bytes = process, log, began_bytes

    @classmethod
    async def start(
        cls, module: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> tuple[ServerProcess, dict[str, Any]]:
        """The server and the fields of its ready line.

        Raises UnavailableError when it cannot be started (the log's directory is gone, no more descriptors), or ends
        or is not ready in time; its last words are in the error's notes. Nothing is left then.
        """
        try:
            with await _opened(log) as stderr:
                began_bytes = os.fstat(stderr.fileno()).st_size
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", module, *arguments,
                    stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=stderr,
                    env={**environment, kept_short.VARIABLE: str(log.absolute())}, cwd="/", start_new_session=True,
                    limit=_MAX_LINE_BYTES, preexec_fn=_die_with(os.getpid()),
                )  # fmt: skip
        except OSError as error:
            raise errors.UnavailableError(f"{error.filename or module}: {error.strerror}") from error
        made = cls(process, log, began_bytes)
        try:
            return made, await made._ready()
        except BaseException:
            made.kill()
            await made.wait()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> str:
        """How it ended, once it has."""
        code = await self._process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def stop(self) -> bool:
        """SIGTERM, and SIGKILL when it takes too long. Returns when it has ended; False: the kernel does not let go of
        it, as of who writes to a volume that is frozen: it ends when its disk answers."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_S)
        except TimeoutError:
            self.kill()
            try:
                await asyncio.wait_for(self._process.wait(), _KILLED_S)
            except TimeoutError:
                return False
        return True

    async def _ready(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(READY_S):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise self._trouble(f"it was not ready after {READY_S:.0f} s") from None
        try:
            fields: dict[str, Any] = json.loads(line)
        except ValueError:
            raise self._trouble(await self.wait()) from None
        return fields

    def _trouble(self, what: str) -> errors.UnavailableError:
        error = errors.UnavailableError(f"{what}; the end of {self._log}:")
        error.add_note(log_file.tail(self._log, self._began_bytes))
        return error


async def _opened(log: Path) -> BinaryIO:
    """Its disk may hang: who waits may be told otherwise."""
    return await asyncio.wrap_future(begun_apart.begun("opens a log", lambda: log_file.opened(log)))


def _die_with(parent: int) -> Callable[[], None]:
    """What a child does before it becomes the server."""

    def ask() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # killed before the kernel was asked
            os._exit(1)

    return ask
