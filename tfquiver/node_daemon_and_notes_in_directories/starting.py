"""Starts the daemon of a cache directory, and says why when it does not start."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import tfquiver
from tfquiver import errors, plain_text
from tfquiver.log_files_and_lines import kept_short, log_file
from tfquiver.node_daemon_and_notes_in_directories import store_environment

LOG = Path("log", "node.log")
POLL_S = 0.05
_ENDS_S = 5.0  # a process that has closed its output
# The shell is the daemon's parent until it is ready: it says how it ended, when it is asked. Then it ends, so that the
# daemon is nobody's child: no zombie here when it leaves, no end when we end.
_PARENT = '"$@" </dev/null & exec >&- 2>&-; read -r asked || exit 0; wait $!; exit $?'
# How that shell begins. Tests put in its place what begins it sooner (tests/support/warm.py).
starts: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen


def _opened_log(directory: Path) -> BinaryIO:
    try:
        return log_file.opened(directory / LOG)
    except OSError as error:
        raise errors.InvalidArgumentError(f"cache_dir {directory}: {LOG}: {error.strerror}") from error


def start(directory: Path, quota_bytes: int | None, idle_exit_s: int, give_up_at: float) -> None:
    """Starts a daemon and waits for its ready line; returns as well when another daemon has the directory.

    Raises UnavailableError (it ended; with its last words), DeadlineError, InvalidArgumentError (no place for its log).
    """
    command = [
        sys.executable, "-m", "tfquiver.service.node.main", f"--cache_dir={directory}", f"--idle_exit_s={idle_exit_s}",
    ]  # fmt: skip
    if quota_bytes is not None:
        command.append(f"--quota={quota_bytes}")
    import_root = str(Path(tfquiver.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [import_root, os.environ.get("PYTHONPATH", "")]))
    environment = {
        **store_environment.without(os.environ), "PYTHONPATH": path, kept_short.VARIABLE: str(directory / LOG),
    }  # fmt: skip
    with _opened_log(directory) as stderr:
        began_bytes = os.fstat(stderr.fileno()).st_size  # what is in front of it others have said
        line, ended = _run(command, stderr, environment, give_up_at)
    try:
        said = json.loads(line)
    except ValueError:
        said = {}
    if said.get("error") == errors.AlreadyRunningError.__name__:
        time.sleep(POLL_S)  # it is about to be ready, or about to leave
    elif "socket" not in said:
        kind: type[errors.TfquiverError] = errors.UnavailableError
        if ended:
            what = f"ended at its start ({ended})"
        elif line:
            what = f"said what no node says ({plain_text.shortened(line.decode(errors='replace'))})"
        else:
            kind, what = errors.DeadlineError, "is not ready in time"
        log = directory / LOG
        words = log_file.tail(log, began_bytes)
        last = f"the end of {log}:\n{words}" if words else f"it has said nothing in {log}"
        raise kind(f"the node for cache_dir {directory} {what}; {last}")


def by_shell(command: Sequence[str]) -> list[str]:
    return ["/bin/sh", "-c", _PARENT, "sh", *command]


def _run(
    command: Sequence[str], stderr: BinaryIO, environment: Mapping[str, str], give_up_at: float
) -> tuple[bytes, str]:
    """The first line that a daemon prints, and how it ended when it did so before that."""
    with starts(
        by_shell(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=stderr, start_new_session=True, cwd="/", env=environment,
    ) as shell:  # fmt: skip
        assert shell.stdin is not None and shell.stdout is not None
        line, is_whole = _read_line(shell.stdout.fileno(), give_up_at)
        if line or not is_whole:
            return line, ""
        try:
            shell.communicate(b"\n", timeout=_ENDS_S)
        except subprocess.TimeoutExpired:
            shell.kill()
            return line, "in a way that is not known"
        return line, _ending(shell.returncode)


def _ending(code: int) -> str:
    """Of a shell's word for how a process ended."""
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        return f"exit code {code}"
    hint = ", as the kernel does when memory runs out" if name == "SIGKILL" else ""
    return f"killed by {name}{hint}"


def _read_line(descriptor: int, give_up_at: float) -> tuple[bytes, bool]:
    """What comes until then, and whether that is all: a line, or what there was when the other end was closed."""
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while not line.endswith(b"\n") and selector.select(max(give_up_at - time.monotonic(), 0)):
            piece = os.read(descriptor, 65536)
            if not piece:
                return line, True
            line += piece
    return line, line.endswith(b"\n")
