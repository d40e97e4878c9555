"""The program behind tests/support/warm.py: imports once what many processes need, and forks one of them on request.

    python -m tests.support.warm_process FD KIND ROOM

Beside other processes of tests it is not started but forked itself, of one that has imported for all of them
(tests/support/warm_roots.py).

FD: its end of a socket pair, where requests come, each with the three standard descriptors of the process to be; KIND:
one of `KINDS`, what is imported; ROOM: as long as command lines may be. They are written over it in a child, whose
/proc/PID/cmdline says what it runs: `tfquiver stop` looks there, as does whoever looks for what a test has left.

A child is what `python -m` or `python -c` would have made of the same command line: the module or the code is run as
__main__, with its own environment, directory and descriptors, and the interpreter ends in good order. What it has in
common with its siblings is the order of sets of strings (PYTHONHASHSEED), drawn once for all children of one process.
"""

from __future__ import annotations

import ast
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.cluster import die_with_parent

_MOST_REQUEST = 1 << 20
# Mains of servers and commands: what they import is imported, not they themselves, whose flags have names in common.
_MAINS = {
    "plain": ("service.node.main", "service.coordinator.main", "service.dispatcher.main", "cli.main"),
    "tensorflow": (),
    "keras": (),
    "tensorflow servers": ("service.dispatcher.main", "service.worker.main"),
}
KINDS = tuple(_MAINS)
_FORK_WELL = {"jemalloc_bg_thd"}  # pyarrow's allocator, which starts it again in the child
_CLONE_NEWNET = 0x40000000


def prepare(kind: str) -> list[str]:
    """Returns what a fork would lack: threads."""
    _import(kind)
    gc.collect()
    gc.freeze()  # no child's collections look at it
    return _lost_by_forks()


def serve(control: socket.socket, threads: list[str]) -> None:
    control.send(json.dumps({"threads": threads, "pid": os.getpid()}).encode())
    if become := _serve(control):
        become()


def _import(kind: str) -> None:
    if kind == "tensorflow":
        from tfquiver.service.common_to_servers.tensorflow_servers.without_keras import without_keras

        with without_keras():  # what it imports of others starts threads
            from tfquiver.ops.compiling_and_loading import loader

        loader.load()
    if kind == "keras":
        for module in ("tensorflow", "keras", "tfquiver.keras", "tests.support.page_data"):
            importlib.import_module(module)
    if kind == "tensorflow servers":
        from tfquiver.service.common_to_servers.tensorflow_servers import tensorflow_runtime

        tensorflow_runtime.load()
    for main in _MAINS.get(kind, ()):
        spec = importlib.util.find_spec(f"tfquiver.{main}")
        assert spec is not None and spec.origin is not None
        whole = ast.parse(Path(spec.origin).read_text())
        imports: list[ast.stmt] = [one for one in whole.body if isinstance(one, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), spec.origin, "exec"), {"__name__": main})
    if kind == "plain":
        importlib.import_module("tfquiver.cli.main").parser()  # it imports commands when they are run
        del sys.modules["tfquiver.cli.main"]


def _lost_by_forks() -> list[str]:
    """Threads that a child would lack."""
    own = str(os.getpid())
    names = {(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir() if task.name != own}
    return sorted(names - _FORK_WELL)


def _serve(control: socket.socket) -> Callable[[], None] | None:
    """What a child is to do, in the child; None when nobody asks any more."""
    children: set[int] = set()
    while True:
        told, descriptors, _, _ = socket.recv_fds(control, _MOST_REQUEST, 3)
        if not told:
            break
        request = json.loads(told)
        if "ended" in request:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            children.discard(pid)
            control.send(json.dumps({"pid": pid, "status": status}).encode())
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            return lambda: _become(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        children.add(pid)
        control.send(json.dumps({"pid": pid}).encode())
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return None


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    die_with_parent()
    for stands_for, descriptor in enumerate(descriptors):
        os.dup2(descriptor, stands_for)
    for descriptor in descriptors:
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    if request["netns"]:
        _enter(Path("/run/netns", request["netns"]))
    if request["daemon"]:
        _begin_daemon()
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    tempfile.tempdir = None
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    _tell_command(request["command"])
    way, what, *arguments = request["command"][1:]
    sys.path[1:1] = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one and one not in sys.path]
    if way == "-m":
        sys.argv, sys.path[0] = [what, *arguments], str(Path.cwd())
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = ["-c", *arguments], ""
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)


def _enter(space: Path) -> None:
    with space.open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {space}")


def _begin_daemon() -> None:
    """As the shell that does it (tfquiver/node_daemon_and_notes_in_directories/starting.py).

    Returns in the daemon alone.
    """
    os.setsid()
    if pid := os.fork():
        os.closerange(1, 3)
        if not os.read(0, 1):
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os._exit(code if code >= 0 else 128 - code)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


def _tell_command(command: list[str]) -> None:
    fields = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    line = b"\0".join(map(os.fsencode, command))[: end - begin - 1]
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, line, len(line))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), prepare(sys.argv[2]))
