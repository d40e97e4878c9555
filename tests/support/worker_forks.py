"""tf.data service workers and dispatchers that start in a tenth of a second: forks of a process with TensorFlow in it.

Importing TensorFlow is nearly all of what their start costs, and tests that kill hundreds of them cannot pay it each
time (tests/support/warm.py). Each runs `tfquiver-worker`'s (or -dispatcher's) own main with the flags it is given: it
is an ordinary server process, and SIGKILL ends it as it ends any other.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support import fixed_ports, warm
from tests.support.cluster import READY_S, first_line, tensorflow_env
from tfquiver.grpc_plumbing import addresses


class Worker:
    """One worker's (or dispatcher's) address; the process behind it may be killed and forked again."""

    def __init__(self, server: str, arguments: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self._server, self._arguments, self._log, self._env = server, list(arguments), log, env
        self._port = fixed_ports.free_port(addresses.to_bind("localhost"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def address(self) -> str:
        return f"localhost:{self._port}"

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP, for one; not for what ends the process."""
        assert self._process is not None
        self._process.send_signal(number)

    def launch(self) -> Worker:
        """Forks it, each time at the same port; `await_ready` waits for its ready line."""
        assert self._process is None
        command = [sys.executable, "-m", f"tfquiver.service.{self._server}.main", f"--port={self._port}"]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = warm.server(
                [*command, *self._arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env={**tensorflow_env(), **self._env},
            )  # fmt: skip
        return self

    def await_ready(self) -> Worker:
        """Raises RuntimeError with the end of its log when it is not ready in time, or ends."""
        assert self._process is not None
        try:
            self._port = int(json.loads(first_line(self._process, READY_S))["port"])
        except (TimeoutError, EOFError) as error:
            self.kill()
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
            raise RuntimeError(f"a forked {self._server} is not ready ({error}):\n{tail}") from error
        return self

    def kill(self) -> bool:
        """kill -9; returns when the process is gone: whether there was one."""
        if self._process is None:
            return False
        with self._process as process:
            process.kill()
        self._process = None
        return True


class WorkerForks:
    """Use as a context manager; its workers end with it."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        """`env`: of the servers, beside what they have in all tests."""
        self._env = env or {}
        self._made: list[Worker] = []

    def __enter__(self) -> WorkerForks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._made:
            worker.kill()

    def worker(self, arguments: Sequence[str], log: Path) -> Worker:
        """Not yet launched."""
        return self._make("worker", arguments, log)

    def dispatcher(self, arguments: Sequence[str], log: Path) -> Worker:
        """Not yet launched."""
        return self._make("dispatcher", arguments, log)

    def _make(self, server: str, arguments: Sequence[str], log: Path) -> Worker:
        self._made.append(Worker(server, arguments, log, self._env))
        return self._made[-1]
