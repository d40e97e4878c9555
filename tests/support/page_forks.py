"""Pages are run by forks of a process with TensorFlow in it: to import that is most of what a page costs.

The fork server (this module as a program) starts no thread before it forks, and runs one page at a time. The child has
the page's own folder and environment, and ends as any program does.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.cluster import die_with_parent
from tests.support.pages import run

_FORK_WELL = {"jemalloc_bg_thd"}  # pyarrow's allocator, which starts it again in the child


class PageForks:
    """The fork server's process. A context manager."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._environment, self._log = environment, log
        self._process: subprocess.Popen[str]

    def __enter__(self) -> PageForks:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.page_forks"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=die_with_parent,
                env={**self._environment, "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, page: Path, home: Path, environment: Mapping[str, str], printed: Path, within_s: float) -> int:
        """Its exit code; a page that has not ended within that time is killed."""
        request = {"page": str(page), "home": str(home), "environment": dict(environment), "printed": str(printed)}
        print(json.dumps(request | {"within_s": within_s}), file=self._process.stdin, flush=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the fork server has ended: {self._log.read_text()}"
        return int(line)


def _become(request: dict[str, Any]) -> None:
    die_with_parent()
    os.chdir(request["home"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    printed = os.open(request["printed"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor, stands_for in ((os.open(os.devnull, os.O_RDONLY), 0), (printed, 1), (printed, 2)):
        os.dup2(descriptor, stands_for)


def _waited_for(pid: int, within_s: float) -> int:
    descriptor = os.pidfd_open(pid)
    try:
        if not select.select([descriptor], [], [], within_s)[0]:
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _serve() -> None:
    own = str(os.getpid())
    for module in ("tensorflow", "keras", "tfquiver", "tests.support.page_data"):
        importlib.import_module(module)
    threads = {(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir() if task.name != own}
    assert threads <= _FORK_WELL, f"{threads}: a fork would lack them"
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(request)
            run(Path(request["page"]))
            return
        print(_waited_for(pid, request["within_s"]), flush=True)


if __name__ == "__main__":
    _serve()
