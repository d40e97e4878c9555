"""Processes that have imported what others need, once for all processes of tests that run side by side.

Each of those has processes of its own that fork (tests/support/warm.py): six of them would import TensorFlow six times,
and Keras, and the servers, a minute of a processor. `begin` starts one program for a run of tests, which forks one
process for each kind when it is first asked for, which imports; and that forks for whoever asks. The processes of tests
are themselves such forks (tests/support/tester_forks.py).

    python -m tests.support.warm_roots FD ROOM

FD: where it listens.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support import leaks, warm_process
from tests.support.cluster import die_with_parent, tensorflow_env

ROOM = "-" * 4096
READ_AT_IMPORT = ("TF_CPP_",)
_MOST_REQUEST = 1 << 16
_MOST_DESCRIPTORS = 4
_CLONE_NEWNS = 0x20000
TESTERS = "testers"  # tests/support/tester_forks.py


def begin(folder: Path) -> Callable[[], None]:
    """For all who have this folder; returns what ends it, and all of its forks."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / "warm"))
        listener.listen(64)
        # No threads before a fork: NumPy's, and those of the allocator that pyarrow, which Keras imports, brings.
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_roots", str(listener.fileno()), ROOM], env=env,
            stdin=subprocess.DEVNULL, pass_fds=[listener.fileno()], preexec_fn=die_with_parent,
        )  # fmt: skip

    def end() -> None:
        process.kill()  # each fork dies with its parent
        process.wait()

    return end


def ask(folder: Path, kind: str, read_at_import: frozenset[tuple[str, str]], control: socket.socket) -> bool:
    """For a process that serves `control` (warm_process.serve). False: nobody is there to be asked."""
    request = {
        "kind": kind, "read_at_import": sorted(read_at_import), "mark": os.environ[leaks.MARK], "cwd": str(Path.cwd()),
    }  # fmt: skip
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
        try:
            asked.connect(str(folder / "warm"))
        except OSError:
            return False
        # Its mounts are to be those of this process's (tests/support/own_mounts.py).
        with open("/proc/thread-self/ns/mnt", "rb") as mounts:  # noqa: PTH123
            socket.send_fds(asked, [json.dumps(request).encode()], [control.fileno(), mounts.fileno()])
    return True


def _roots(listener: socket.socket) -> Callable[[], None]:
    """Forks a process for each kind; what that is to do, in it."""
    roots: dict[str, socket.socket] = {}
    while True:
        with listener.accept()[0] as asked:
            told, descriptors, _, _ = socket.recv_fds(asked, _MOST_REQUEST, _MOST_DESCRIPTORS)
        if not told:
            continue
        request = json.loads(told)
        key = json.dumps([request["kind"], request["read_at_import"]])
        if key not in roots:
            roots[key], theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            if os.fork() == 0:
                for other in (listener, *roots.values()):
                    other.close()
                for descriptor in descriptors:
                    os.close(descriptor)
                return lambda: _root(theirs, request)
            theirs.close()
        with contextlib.suppress(OSError):  # it has ended: who asked finds nobody at the other end
            socket.send_fds(roots[key], [told], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _root(requests: socket.socket, first: dict[str, Any]) -> None:
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    of_testers = first["kind"] == TESTERS
    if of_testers:
        from tests.support import tester_forks  # with pytest, which no server has

        os.chdir(first["cwd"])
        tester_forks.prepare(first["arguments"])
    else:
        _be_server_like(first["read_at_import"])
    threads = warm_process.prepare(first["kind"])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks here how they ended
    while True:
        told, descriptors, _, _ = socket.recv_fds(requests, _MOST_REQUEST, _MOST_DESCRIPTORS)
        if not told:
            return
        if (of_testers and threads) or os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        requests.close()
        die_with_parent()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        request = json.loads(told)
        os.chdir(request["cwd"])
        if of_testers:
            *standard, lives = descriptors
            for stands_for, descriptor in enumerate(standard):
                os.dup2(descriptor, stands_for)
                os.close(descriptor)
            os.set_inheritable(lives, False)
            os.write(lives, b"1")
            tester_forks.become(request["code"])
        else:
            control, mounts = descriptors
            _see_mounts(mounts)
            _tell_mark(request["mark"])
            warm_process.serve(socket.socket(fileno=control), threads)
        return


def _be_server_like(read_at_import: Sequence[tuple[str, str]]) -> None:
    """What is imported for them reads the environment that they have."""
    env = {name: value for name, value in tensorflow_env().items() if not name.startswith(READ_AT_IMPORT)}
    os.environ.clear()
    os.environ.update(env | dict(read_at_import))


def _see_mounts(mounts: int) -> None:
    if os.fstat(mounts).st_ino != os.stat("/proc/self/ns/mnt").st_ino:  # noqa: PTH116
        cwd = Path.cwd()
        if ctypes.CDLL(None, use_errno=True).setns(mounts, _CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "setns of mounts")
        os.chdir(cwd)
    os.close(mounts)


def _tell_mark(mark: str) -> None:
    """Its forks carry it in /proc/PID/environ, which is as the kernel laid it out for the first of all its parents."""
    before = os.environ[leaks.MARK]
    assert len(mark) == len(before)
    os.environ[leaks.MARK] = mark
    fields = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    begin, end = int(fields[47]), int(fields[48])
    at = ctypes.string_at(begin, end - begin).index(f"{leaks.MARK}={before}".encode())
    ctypes.memmove(begin + at + len(leaks.MARK) + 1, mark.encode(), len(mark))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began it ends it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _roots(socket.socket(fileno=int(sys.argv[1])))()
