"""tf.data service workers and dispatchers that start in a tenth of a second: forks of a process with TensorFlow in it.

Importing TensorFlow is nearly all of what their start costs, and tests that kill hundreds of them cannot pay it each
time. The fork server (this module as a program) imports TensorFlow and the op, starts no server and no thread, and
forks on request. The child then runs `tfquiver-worker`'s (or -dispatcher's) own `run()` with the flags it is given: it
is an ordinary server process, and SIGKILL ends it as it ends any other.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

from tests.support.cluster import Server, die_with_parent, tensorflow_env

_READY_S = 60.0


class Worker:
    """One worker's (or dispatcher's) address; the process behind it may be killed and forked again."""

    def __init__(self, forks: WorkerForks, server: str, arguments: Sequence[str], log: Path) -> None:
        self._forks, self._server, self._arguments, self._log = forks, server, list(arguments), log
        self._port = 0
        self._pid = 0
        self._ready: int | None = None

    @property
    def alive(self) -> bool:
        return self._pid > 0

    @property
    def address(self) -> str:
        return f"localhost:{self._port}"

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP, for one; not for what ends the process."""
        assert self.alive
        os.kill(self._pid, number)

    def launch(self) -> Worker:
        """Forks it, at the port that it had; `await_ready` waits for its ready line."""
        assert not self.alive
        self._ready, ours = os.pipe()
        try:
            self._pid = self._forks.fork(self._server, [f"--port={self._port}", *self._arguments], self._log, ours)
        finally:
            os.close(ours)
        return self

    def await_ready(self) -> Worker:
        """Raises RuntimeError with the end of its log when it is not ready in time, or ends."""
        assert self._ready is not None
        line, give_up_at = b"", time.monotonic() + _READY_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._ready, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                piece = os.read(self._ready, 65536) if selector.select(give_up_at - time.monotonic()) else b""
                if not piece:
                    self.kill()
                    tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
                    raise RuntimeError(f"a forked {self._server} is not ready:\n{tail}")
                line += piece
        self._port = int(json.loads(line)["port"])
        return self

    def kill(self) -> bool:
        """kill -9; returns when the process is gone: whether there was one."""
        if not self.alive:
            return False
        self._forks.kill(self._pid)
        self._pid = 0
        if self._ready is not None:
            os.close(self._ready)
            self._ready = None
        return True


class ForkedProcess:
    """What tests ask of a subprocess.Popen, of a process that the fork server has started."""

    def __init__(self, forks: WorkerForks, pid: int, stdout: IO[bytes]) -> None:
        self._forks, self.pid, self.stdout = forks, pid, stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._forks.exit_code(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                select.select([descriptor], [], [], timeout)
            finally:
                os.close(descriptor)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("a forked server", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedServer(Server):
    """A dispatcher or worker of a Cluster that is forked. `kind` as for `Cluster.add`."""

    def __init__(self, forks: WorkerForks, kind: str, arguments: Sequence[str], log: Path) -> None:
        super().__init__(f"tfquiver.service.{kind}.main", arguments, log)
        self._forks, self._kind = forks, kind

    def launch(self) -> ForkedServer:
        assert not self.running, f"{self.module} runs already"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        reading, writing = os.pipe()
        try:
            pid = self._forks.fork(self._kind, self.arguments, self.log, writing)
        finally:
            os.close(writing)
        self._process = cast("subprocess.Popen[bytes]", ForkedProcess(self._forks, pid, os.fdopen(reading, "rb")))
        return self


class WorkerForks:
    """The fork server's process. Use as a context manager; its workers end with it. Not thread-safe."""

    def __init__(self, log: Path, env: Mapping[str, str] | None = None) -> None:
        """`env`: of the servers, beside what they have in all tests."""
        self._log, self._env = log, env or {}
        self._process: subprocess.Popen[str]

    def __enter__(self) -> WorkerForks:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.worker_forks"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**tensorflow_env(), "OPENBLAS_NUM_THREADS": "1", **self._env},
                preexec_fn=die_with_parent,
            )
        if self._answer() != {"threads": 1}:
            raise RuntimeError(f"the fork server has threads: see {self._log}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(_READY_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)  # it says in its log where it is
            self._process.wait()
            raise RuntimeError(f"the fork server did not end: see {self._log}") from None
        finally:
            self._process.stdout.close()  # type: ignore[union-attr]

    def worker(self, arguments: Sequence[str], log: Path) -> Worker:
        """Not yet launched."""
        return Worker(self, "worker", arguments, log)

    def dispatcher(self, arguments: Sequence[str], log: Path) -> Worker:
        """Not yet launched."""
        return Worker(self, "dispatcher", arguments, log)

    def server(self, kind: str, arguments: Sequence[str], log: Path) -> ForkedServer:
        """For `Cluster(fork=)`."""
        return ForkedServer(self, kind, arguments, log)

    def fork(self, server: str, arguments: Sequence[str], log: Path, ready: int) -> int:
        """The pid. `ready`: an open pipe of this process, where the child writes its ready line."""
        pipe = f"/proc/{os.getpid()}/fd/{ready}"
        return int(self._ask({"server": server, "arguments": list(arguments), "log": str(log), "ready": pipe})["pid"])

    def kill(self, pid: int) -> None:
        self._ask({"kill": pid})

    def exit_code(self, pid: int) -> int | None:
        """As subprocess.Popen.returncode; None: it runs. Ask once after its end."""
        code = self._ask({"ended": pid})["code"]
        return None if code is None else int(code)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the fork server has ended: see {self._log}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _child(server: str, arguments: list[str], ready: int, log: int) -> None:
    """Never returns."""
    code = 1
    try:
        die_with_parent()
        for descriptor, stands_for in ((os.open(os.devnull, os.O_RDONLY), 0), (ready, 1), (log, 2)):
            os.dup2(descriptor, stands_for)
            os.close(descriptor)
        sys.argv = [f"tfquiver-{server}", *arguments]
        # Not before the fork: the servers' flags have names in common.
        importlib.import_module(f"tfquiver.service.{server}.main").run()
        code = 0
    except Exception:  # noqa: BLE001 - the end of a process: nobody above could say it
        traceback.print_exc()
    finally:
        os._exit(code)


def _serve() -> None:
    faulthandler.enable()
    from tfquiver.service.startup import tf_server

    tf_server.load_library()
    from tensorflow.core.protobuf import service_config_pb2

    assert service_config_pb2
    print(json.dumps({"threads": len(list(Path("/proc/self/task").iterdir()))}), flush=True)
    children: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        if "ended" in request:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            children.discard(pid)
            print(json.dumps({"code": os.waitstatus_to_exitcode(status) if pid else None}), flush=True)
            continue
        if "kill" in request:
            pid = request["kill"]
            if pid in children:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                children.discard(pid)
        else:
            log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            ready = os.open(request["ready"], os.O_WRONLY)  # while the other end waits: before the answer
            pid = os.fork()
            if pid == 0:
                _child(request["server"], request["arguments"], ready, log)
            os.close(ready)
            os.close(log)
            children.add(pid)
        print(json.dumps({"pid": pid}), flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    _serve()
