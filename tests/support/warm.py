"""Processes that need not import what others have: Popen and run, as subprocess's, for command lines of this Python.

Importing is nearly all that most of what tests start does: half a second of a processor for a node, five with
TensorFlow. `Popen(["python", "-m", ...])` asks a process that has imported it all (tests/support/warm_process.py, one
of each kind for a process of tests, from the first use until that ends; with `pytest -n` what each kind needs is
imported once for all of them, tests/support/warm_roots.py) to fork; the child runs the command line's
module or code as Python would. What Python cannot start so (a function that is to run before, another library path) is
started as ever. Tests of what starting itself does use subprocess.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import leaks, turns, warm_roots
from tests.support.cluster import die_with_parent, tensorflow_env
from tests.support.warm_roots import READ_AT_IMPORT, ROOM
from tfquiver.node_daemon_and_notes_in_directories import starting

_PYTHON = sys.executable  # a test may put another in its place
_MOST_ANSWER = 1 << 16
# What Python reads before a child is forked: one with another is started anew. (READ_AT_IMPORT is what TensorFlow reads
# when it is imported, once for all that have the same.)
_READ_AT_START = ("PYTHON", "LD_", "MALLOC_", "OPENBLAS_", "OMP_")


class _Warm:
    """The process that forks. Safe to use from several threads."""

    def __init__(self, kind: str, read_at_import: frozenset[tuple[str, str]]) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._started: subprocess.Popen[bytes] | None = None
        with theirs:
            folder = os.environ.get(turns.FOLDER)
            if not folder or not warm_roots.ask(Path(folder), kind, read_at_import, theirs):
                env = {name: value for name, value in _own_env().items() if not name.startswith(READ_AT_IMPORT)}
                env |= {"OPENBLAS_NUM_THREADS": "1", **dict(read_at_import)}  # no threads before a fork
                command = [_PYTHON, "-m", "tests.support.warm_process", str(theirs.fileno()), kind, ROOM]
                self._started = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=env)
        said = self._answer()
        self._process = os.pidfd_open(said["pid"])
        atexit.register(self._end)
        leaks.lasting(said["pid"], self._control.fileno())
        leaks.lasting(said["pid"], self._process)
        if said["threads"]:
            raise RuntimeError(f"a process that is to be forked has other threads: {said}")

    def fork(
        self, command: Sequence[str], env: Mapping[str, str], cwd: str, descriptors: Sequence[int], **more: Any
    ) -> int:
        """`more`: see `_become` there."""
        os.umask(umask := os.umask(0))
        request = {"command": list(command), "env": dict(env), "cwd": cwd, "umask": umask, **more}
        with self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            return int(self._answer()["pid"])

    def ended(self, pid: int) -> int | None:
        """Its wait status; None: it runs. To be asked until it has been told, once."""
        with self._lock:
            self._control.send(json.dumps({"ended": pid}).encode())
            answer = self._answer()
        return int(answer["status"]) if answer["pid"] else None

    def _end(self) -> None:
        atexit.unregister(self._end)
        self._control.close()
        _await_end(self._process, None)
        os.close(self._process)
        if self._started is not None:
            self._started.wait()

    def _answer(self) -> dict[str, Any]:
        said = self._control.recv(_MOST_ANSWER)
        if not said:
            raise RuntimeError("the process that forks has ended")
        answer: dict[str, Any] = json.loads(said)
        return answer


@cache
def _own_env() -> Mapping[str, str]:
    return tensorflow_env()


@cache
def _warm(kind: str, read_at_import: frozenset[tuple[str, str]]) -> _Warm:
    return _Warm(kind, read_at_import)


class Popen(subprocess.Popen[Any]):
    """As subprocess.Popen; `warm_kind`: what is imported, "plain", "tensorflow" (without Keras), "keras" or "tensorflow
    servers". Also of the shell that starts a daemon (tfquiver/node_daemon_and_notes_in_directories/starting.py), and
    behind `ip netns exec`."""

    def __init__(self, command: Sequence[str], *, warm_kind: str = "plain", **more: Any) -> None:
        self._kind = warm_kind
        self._forked_by: _Warm | None = None
        super().__init__(command, **more)

    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any,
        startupinfo: Any, creationflags: Any, shell: Any, *pipes_and_more: Any,
    ) -> None:  # fmt: skip
        pipes, more = pipes_and_more[:6], pipes_and_more[6:]
        p2cread, _, _, c2pwrite, _, errwrite = pipes
        env = dict(os.environ if env is None else env)
        own = _own_env()
        ours, command = ([_PYTHON, "-m"], [_PYTHON, "-c"]), [str(word) for word in args]
        if daemon := command[:4] == starting.by_shell([]):
            command = command[4:]
        netns = ""
        if command[:3] == ["ip", "netns", "exec"]:
            netns, command = command[3], command[4:]
        early = {name for name in env.keys() | own.keys() if name.startswith(_READ_AT_START)} - {"PYTHONPATH"}
        if (
            command[:2] not in ours or shell or pass_fds or self._other_user_or_session(more, daemon)
            or preexec_fn not in (None, die_with_parent) or any(env.get(name) != own.get(name) for name in early)
        ):  # fmt: skip
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                *pipes_and_more,
            )  # fmt: skip
            return
        if self._kind != "plain":
            warm = _warm(self._kind, frozenset(one for one in env.items() if one[0].startswith(READ_AT_IMPORT)))
        else:
            warm = _warm(self._kind, frozenset())
        standard = [own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        self.pid = warm.fork(command, env, str(Path(cwd or ".").absolute()), standard, daemon=daemon, netns=netns)
        self._forked_by, self._child_created = warm, True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    @staticmethod
    def _other_user_or_session(more: Sequence[Any], own_session: bool) -> bool:
        _, gid, gids, uid, umask, session, *group = more
        return (gid, gids, uid, umask, session) != (None, None, None, -1, own_session) or group not in ([], [-1])

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        if self._forked_by is None:
            return super()._internal_poll(_deadstate)  # type: ignore[misc,no-any-return]
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None and (status := self._forked_by.ended(self.pid)) is not None:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._forked_by is None:
            return super()._wait(timeout)  # type: ignore[misc,no-any-return]
        if self._internal_poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                _await_end(descriptor, timeout)
            finally:
                os.close(descriptor)
        if self._internal_poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return int(self.returncode)


def _await_end(process: int, timeout_s: float | None) -> None:
    ends = select.poll()  # select() knows descriptors below 1024 only
    ends.register(process, select.POLLIN)
    ends.poll(None if timeout_s is None else max(0.0, timeout_s * 1000))


def server(command: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
    """For `cluster.starts`."""
    with_tensorflow = any(f"tfquiver.service.{kind}.main" in command for kind in ("dispatcher", "worker"))
    return Popen(command, warm_kind="tensorflow servers" if with_tensorflow else "plain", **more)


def run(
    command: Sequence[str], *, input: str | bytes | None = None, capture_output: bool = False,
    timeout: float | None = None, check: bool = False, **more: Any,
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """As subprocess.run."""
    if capture_output:
        more |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        more["stdin"] = subprocess.PIPE
    with Popen(command, **more) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.send_signal(signal.SIGKILL)
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done
