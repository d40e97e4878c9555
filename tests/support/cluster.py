"""Real servers as real processes, for tests, benches and the demo: started on port 0, restarted on the port they got.

Every wait has a deadline; whatever happens, nothing that was started here is alive after `Cluster.close()`, and the
kernel sees to it when the test process itself is killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from tests.support import fixed_ports
from tfquiver.grpc_plumbing import addresses

READY_S = 60.0
STOP_S = 30.0  # a node drains for 20 s at most, and closes in 3.5 s; what a busy machine adds
_IDLE, _MOST_IDLE_S = 6.0, 0.3  # between two looks, of what a look takes
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
# How a server's process begins. Tests put in its place what begins it sooner (tests/support/warm.py).
starts: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
_TENSORFLOW_ENV = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "1", "TF_ENABLE_ONEDNN_OPTS": "0"}


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = 30.0, every_s: float = 0.02) -> None:
    """Polls a condition of another process. Raises TimeoutError that says `what` did not come.

    One that takes long to look at, as what servers are asked for, is looked at less often: looking was most of what
    some tests did.
    """
    give_up_at = time.monotonic() + deadline_s
    while True:
        looked_at = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        if now > give_up_at:
            raise TimeoutError(f"{what}: not within {deadline_s:.0f} s")
        time.sleep(max(every_s, min(_IDLE * (now - looked_at), _MOST_IDLE_S)))


def tensorflow_env() -> dict[str, str]:
    """The environment of server processes."""
    env = {**os.environ, **_TENSORFLOW_ENV}
    env.pop("GRPC_ENABLE_FORK_SUPPORT", None)  # of the tests alone, see tests/conftest.py
    return env


def die_with_parent() -> None:
    """To be called in a child: the kernel kills it when its parent ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """One server process. `ready` holds the fields of its ready line."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        ready_s: float = READY_S,
        prefix: Sequence[str] = (),
    ) -> None:
        """`prefix`: a command that becomes the one that follows it, as `ip netns exec` does."""
        self.module = module
        self._prefix = list(prefix)
        # One that the kernel gives to nobody who connects while this server is away: it comes back with it.
        kept = f"--port={fixed_ports.free_port(addresses.to_bind('localhost'))}"
        self.arguments = [kept if one == "--port=0" and not prefix else one for one in arguments]
        self.log = log
        self.ready: dict[str, Any] = {}
        self._env = {**tensorflow_env(), **(env or {})}
        self._ready_s = ready_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return int(self.ready["port"])

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.module} has not been started"
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> Server:
        """Starts the process; `await_ready` reads its ready line."""
        assert not self.running, f"{self.module} runs already"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = starts(
                [*self._prefix, sys.executable, "-m", self.module, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._env,
                preexec_fn=die_with_parent,
            )
        return self

    def await_ready(self) -> Server:
        """Raises RuntimeError with the end of its log when the process ends, or is not ready in time."""
        try:
            ready: list[dict[str, Any]] = []
            while not ready:
                told = [json.loads(line) for line in first_line(self.process, self._ready_s).splitlines()]
                ready = [one for one in told if not one.get("stands_by")]  # that is no ready line yet
            self.ready = ready[0]
        except (TimeoutError, EOFError) as error:
            self.kill()
            raise RuntimeError(f"{self.module} is not ready ({error}):\n{self.log_tail()}") from error
        return self

    def start(self) -> Server:
        return self.launch().await_ready()

    def launch_again(self) -> Server:
        """As `launch`, with the port that it had."""
        self.arguments = [a for a in self.arguments if not a.startswith("--port=")] + [f"--port={self.port}"]
        return self.launch()

    def restart(self) -> Server:
        """Starts it again with the port that it had."""
        return self.launch_again().await_ready()

    def kill(self) -> None:
        """kill -9, and the end of the children that it leaves."""
        self._end(signal.SIGKILL, STOP_S)

    def stop(self, deadline_s: float = STOP_S) -> int:
        """SIGTERM; its exit code. Raises TimeoutError when it needs longer than `deadline_s`, and then kills it."""
        return self._end(signal.SIGTERM, deadline_s)

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def _end(self, number: signal.Signals, deadline_s: float) -> int:
        if self._process is None:
            return 0
        children: list[psutil.Process] = []
        if self._process.poll() is None:
            children = psutil.Process(self._process.pid).children(recursive=True)
            self._process.send_signal(number)
        late = False
        try:
            self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            late = True
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        _, alive = psutil.wait_procs(children, timeout=STOP_S)
        for child in alive:
            child.kill()
        psutil.wait_procs(alive, timeout=STOP_S)
        if late:
            raise TimeoutError(f"{self.module} did not stop within {deadline_s} s:\n{self.log_tail()}")
        return self._process.returncode


def first_line(process: subprocess.Popen[bytes], deadline_s: float) -> bytes:
    """The ready line. Raises TimeoutError, and EOFError when the process ends before."""
    assert process.stdout is not None
    give_up_at = time.monotonic() + deadline_s
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, give_up_at - time.monotonic())):
                raise TimeoutError(f"no ready line within {deadline_s:.0f} s")
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                raise EOFError(f"it ended with exit code {process.wait()}")
            line += piece
    return line


class Cluster:
    """A coordinator, nodes, a dispatcher and workers under `base`. Use as a context manager.

    Args:
      base: empty directory for everything the servers write.
      workers: how many tf.data service workers; 0: no dispatcher either, unless `dispatcher`.
      shared_node: the workers use one node beside them (`cache_dir`); else each worker has a node of its own.
      quota: of each caching node.
      env: added to the servers' environment.
      flags: server name ("coordinator", "node", "dispatcher", "worker") -> further flags.
    """

    def __init__(
        self,
        base: Path,
        workers: int = 2,
        shared_node: bool = True,
        quota: str = "1GiB",
        env: Mapping[str, str] | None = None,
        flags: Mapping[str, Sequence[str]] | None = None,
        dispatcher: bool = False,
    ) -> None:
        self._base = base
        self._with_dispatcher = dispatcher or workers > 0
        self._quota = quota
        self._env = dict(env or {})
        self._flags = {name: list(more) for name, more in (flags or {}).items()}
        self._shared_node = shared_node
        self._servers: list[Server] = []
        self._num_workers = workers
        self.cache_dir = base / "cache"
        self.coordinator = self.add("coordinator", f"--work_dir={base / 'coordinator'}", "--node_timeout_ms=3000")
        self.node: Server | None = None
        self.dispatcher: Server | None = None
        self.workers: list[Server] = []

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is not None:
            for server in self._servers:
                print(f"--- {server.log.name}\n{server.log_tail()}", file=sys.stderr)

    def add(self, kind: str, *arguments: str, name: str = "") -> Server:
        """A server of this cluster, not yet started: `kind` is "coordinator", "node", "dispatcher" or "worker"."""
        all_arguments = ["--port=0", *arguments, *self._flags.get(kind, ())]
        log = self._base / "log" / f"{name or kind}.log"
        server = Server(f"tfquiver.service.{kind}.main", all_arguments, log, self._env)
        self._servers.append(server)
        return server

    def add_worker(self) -> Server:
        """A worker more, not yet started."""
        assert self.dispatcher is not None
        number = len(self.workers)
        if self._shared_node:
            where = [f"--node_dir={self.cache_dir}"]
        else:
            cache_dir = self._base / f"worker-{number}-cache"
            where = [f"--cache_dir={cache_dir}", f"--coordinator={self.coordinator.address}", f"--quota={self._quota}"]
        worker = self.add("worker", f"--dispatcher={self.dispatcher.address}", *where, name=f"worker-{number}")
        self.workers.append(worker)
        return worker

    def kill_workers(self) -> None:
        """kill -9 of each that there is."""
        for worker in self.workers:
            worker.kill()

    def close(self) -> None:
        """Stops everything, clients first; what does not stop in time is killed and reported."""
        late = []
        for server in reversed(self._servers):
            try:
                server.stop()
            except TimeoutError as error:
                late.append(str(error))
        if late:
            raise TimeoutError("\n".join(late))

    def _start(self) -> None:
        self.coordinator.start()
        coordinator = f"--coordinator={self.coordinator.address}"
        self.node = self.add("node", f"--cache_dir={self.cache_dir}", f"--quota={self._quota}", coordinator).start()
        if not self._with_dispatcher:
            return
        work_dir = f"--work_dir={self._base / 'dispatcher'}"
        self.dispatcher = self.add("dispatcher", work_dir, coordinator, "--worker_timeout_ms=2000").start()
        starting = [self.add_worker().launch() for _ in range(self._num_workers)]
        for worker in starting:
            worker.await_ready()
