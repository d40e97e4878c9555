"""What every server's `main` shares: stop signals, the ready line, life with a parent."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import json
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NoReturn

from absl import app, flags, logging

from tfquiver import closed_streams, errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.log_files_and_lines import kept_short, log_lines
from tfquiver.log_files_and_lines.late_lines import LateLines
from tfquiver.node_daemon_and_notes_in_directories import server_file
from tfquiver.plain_text import plain
from tfquiver.service.common_to_servers import printed, server_flags

PARENT = "TFQUIVER_PARENT_PID"  # in the environment of a process that is to end with the one that starts it
_PR_SET_PDEATHSIG = 1
_MOST_LOGGED = 4000  # characters of one message
LAST_LINES_S = 1.0


def die_with_parent() -> None:
    """Asks the kernel to SIGTERM this process when its parent thread ends; at once, where that has ended already, as
    far as it has said who it is: until a process can ask, it has imported for most of a second."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    parent = os.environ.pop(PARENT, "")
    if parent and parent != str(os.getppid()):
        os.kill(os.getpid(), signal.SIGTERM)


def announce(server: str, **fields: Any) -> None:
    """The ready line: one JSON object on standard output, for scripts and tests. Whoever waited for it may be gone."""
    try:
        printed.line(json.dumps({"server": server, "pid": os.getpid(), **fields}))
    except OSError as error:
        logging.warning("nobody reads the ready line (%s)", error.strerror)


def tell_where(work_dir: Path, server: str, address: str, coordinator: str = "") -> None:
    """So that commands find it by its directory; where the disk refuses, they do not."""
    try:
        server_file.write(work_dir, server, address, coordinator)
    except errors.TfquiverError as error:
        logging.warning("commands will not find this %s by its directory: %s", server, error)


def check_exposure(host: str, token_flags: str, has_token: bool, allow_unauthenticated: bool) -> None:
    """A port that asks for no token is for this machine alone, unless somebody says otherwise in words.

    Args:
      host: of --bind_host.
      token_flags: what to give instead, for the message.

    Raises InvalidArgumentError naming the flags.
    """
    if has_token:
        return
    if addresses.is_loopback(host):
        logging.warning(
            "no token is asked for: every process of this machine may read, change and remove what is cached (give %s)",
            token_flags,
        )
    elif allow_unauthenticated:
        logging.warning("--allow_unauthenticated: whoever reaches --bind_host=%s may read and change everything", host)
    else:
        raise errors.InvalidArgumentError(
            f"--bind_host={host!r} lets other machines in, and no token is asked for: give {token_flags}, or say "
            "--allow_unauthenticated where nobody else reaches that address"
        )


def stop_event() -> asyncio.Event:
    """An event of the running loop, set by SIGTERM and SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


@contextlib.contextmanager
def default_signals() -> Iterator[None]:
    """SIGTERM and SIGINT end the process at once in here, as a kill would, whatever it is waiting for.

    For what nothing has been handed out in yet, and where Python code that answers a signal would never run: `start()`
    of TensorFlow's servers holds the interpreter's lock, perhaps for ever; who reads a disk that hangs on the loop's
    thread stands in the kernel. Elsewhere than in the main thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: not Python's
                signal.signal(number, handler)
            if callable(handler):
                signal.siginterrupt(number, False)  # as a loop's handlers have it


def leave(code: int = 0) -> NoReturn:
    """Ends the process once everything has been put in order.

    What would follow, the teardown of the interpreter, of gRPC and of TensorFlow, changes nothing outside the process.
    It takes a coordinator a quarter of a second in which nobody answers, and on a busy machine longer than a server may
    take to stop.
    """
    flush()
    os._exit(code)


def flush(within_s: float = LAST_LINES_S) -> None:
    """Where the log's disk hangs, what is to be told of it is lost."""
    logging.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    if isinstance(sys.stderr, LateLines):
        sys.stderr.written(within_s)


def run_server(serve: Callable[[], Coroutine[Any, Any, None]], about: str) -> None:
    """A server's entry point: parses flags, logs to standard error; a typed error is one line and exit code 1.

    Args:
      about: what the server is, for `--help`.
    """

    def main(argv: list[str]) -> None:
        logging.use_absl_handler()
        name = server_flags.program(Path(argv[0]))
        sys.stderr = LateLines(sys.stderr)
        printed.to_log()
        kept_short.begin()
        atexit.register(flush)
        logging.get_absl_handler().setFormatter(log_lines.formatter(name))
        try:
            asyncio.run(serve())
        except (errors.TfquiverError, FileNotFoundError) as error:
            what = error if isinstance(error, errors.TfquiverError) else errors.of_lost_place(error)
            if what is None:
                raise
            print(log_lines.last(name, plain(what, _MOST_LOGGED), log_lines.is_json()), file=sys.stderr)
            leave(1)

    if platform.system() != "Linux":
        sys.exit(f"{Path(sys.argv[0]).name}: tfquiver's servers run on Linux only: use a Linux container or machine")
    closed_streams.opened()
    flags.FLAGS.set_default("logtostderr", True)
    app.run(main, flags_parser=server_flags.parser(about))
