"""Finds the node daemon of a cache directory on this machine, or starts one.

Processes that share a `cache_dir` share one daemon without being told: it holds a lock in the directory and writes
`node.json` when it is ready. Whoever comes first starts it, detached; it leaves by itself when nobody has used it for a
while. It logs to `<cache_dir>/log/node.log`.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import tfquiver
from tfquiver import durable, errors
from tfquiver.daemon import log_file, store_environment, up_file
from tfquiver.daemon.greeting import greeted
from tfquiver.daemon.node_endpoint import NodeEndpoint, read_endpoint
from tfquiver.wire import reader_frames as frames

IDLE_EXIT_S = 60
_CONNECT_S = 5.0
_POLL_S = 0.05
_LOG = Path("log", "node.log")


def find(cache_dir: str | os.PathLike[str]) -> NodeEndpoint | None:
    """The daemon that serves this cache directory now; None when there is none, or none that answers."""
    try:
        endpoint = read_endpoint(Path(cache_dir))
        connection = _greet(endpoint)
    except (errors.TfquiverError, OSError):
        return None
    connection.close()
    return endpoint if _whole(endpoint) else None


def find_or_start(
    cache_dir: str | os.PathLike[str],
    quota_bytes: int | None = None,
    timeout_s: float = 30.0,
    idle_exit_s: int = IDLE_EXIT_S,
) -> NodeEndpoint:
    """The daemon of this cache directory, started if need be; where `tfquiver up` runs, its node is waited for.

    Args:
      cache_dir: made when it is not there, readable by this user only.
      quota_bytes: of a daemon that is started; None: 80 % of what is free. A daemon that runs keeps its own.
      timeout_s: for all of it.
      idle_exit_s: a daemon that is started leaves when nobody has used it for that long.

    Raises:
      UnavailableError: it could not be started, with the last lines of its log.
      DeadlineError: it was not ready in time.
    """
    directory = Path(cache_dir).absolute()
    give_up_at = time.monotonic() + timeout_s
    if endpoint := find(directory):
        return endpoint
    _make(directory)
    with only_one_starts(directory, give_up_at):
        while True:
            if endpoint := find(directory):
                return endpoint
            if up_file.is_up(directory):
                time.sleep(_POLL_S)  # its node is being started, or started again
            else:
                _make(directory)  # it may have been deleted while this process waited for its turn
                _start(directory, quota_bytes, idle_exit_s, give_up_at)
            if time.monotonic() > give_up_at:
                raise errors.DeadlineError(f"no node for cache_dir {directory} in {timeout_s:g} s:\n{_log(directory)}")


def _make(directory: Path) -> None:
    """With a place for the log. Raises InvalidArgumentError."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise errors.InvalidArgumentError(f"cache_dir {directory}: {error.strerror}") from error
    try:
        durable.private_directory(directory / "log")
    except OSError as error:
        raise errors.InvalidArgumentError(f"cache_dir {directory}: log: {error.strerror}") from error


def _whole(endpoint: NodeEndpoint) -> bool:
    """False: part of its directory was deleted under a node that still answers; it is of no use."""
    addresses = (endpoint.control, endpoint.coordinator)
    paths = [address.removeprefix("unix:") for address in addresses if address.startswith("unix:")]
    return all(Path(path).is_socket() for path in paths)


def _greet(endpoint: NodeEndpoint) -> socket.socket:
    """A connection on which the node has answered. Raises OSError."""
    connection, answer = greeted(endpoint.socket, _CONNECT_S)
    try:
        if frames.decode(answer) != frames.Welcome(endpoint.node_id):
            raise ConnectionError(f"{endpoint.socket}: not node {endpoint.node_id}")
        connection.settimeout(None)
    except (OSError, errors.ProtocolError) as error:
        connection.close()
        raise error if isinstance(error, OSError) else ConnectionError(str(error)) from error
    return connection


@contextmanager
def only_one_starts(directory: Path, give_up_at: float) -> Iterator[None]:
    try:
        lock = durable.lock_file(directory / "start.lock")
    except OSError as error:
        raise errors.InvalidArgumentError(f"cache_dir {directory}: start.lock: {error.strerror}") from error
    try:
        while not durable.try_lock(lock):
            if time.monotonic() > give_up_at:
                raise errors.DeadlineError(
                    f"cache_dir {directory}: another process has been starting its node for too long"
                )
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(lock)


def _opened_log(directory: Path) -> BinaryIO:
    try:
        return log_file.opened(directory / _LOG)
    except OSError as error:
        raise errors.InvalidArgumentError(f"cache_dir {directory}: {_LOG}: {error.strerror}") from error


def _start(directory: Path, quota_bytes: int | None, idle_exit_s: int, give_up_at: float) -> None:
    """Starts a daemon and waits for its ready line; returns as well when another daemon has the directory."""
    command = [
        sys.executable, "-m", "tfquiver.service.node.main", f"--cache_dir={directory}", f"--idle_exit_s={idle_exit_s}",
    ]  # fmt: skip
    if quota_bytes is not None:
        command.append(f"--quota={quota_bytes}")
    import_root = str(Path(tfquiver.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [import_root, os.environ.get("PYTHONPATH", "")]))
    environment = {**store_environment.without(os.environ), "PYTHONPATH": path}
    # The shell ends at once, so that the daemon is nobody's child: no zombie here when it leaves, no end when we end.
    with (
        _opened_log(directory) as stderr,
        subprocess.Popen(
            ["/bin/sh", "-c", '"$@" &', "sh", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=stderr, start_new_session=True, cwd="/", env=environment,
        ) as shell,
    ):  # fmt: skip
        shell.wait()
        assert shell.stdout is not None
        line = _read_line(shell.stdout.fileno(), give_up_at)
    try:
        said = json.loads(line)
    except ValueError:
        said = {}
    if said.get("error") == errors.AlreadyRunningError.__name__:
        time.sleep(_POLL_S)  # it is about to be ready, or about to leave
    elif "socket" not in said:
        late = time.monotonic() > give_up_at
        what = "is not ready in time" if late else "ended at its start"
        raise (errors.DeadlineError if late else errors.UnavailableError)(
            f"the node for cache_dir {directory} {what}: {said.get('message', '')}\n"
            f"{directory / _LOG}:\n{_log(directory)}"
        )


def _read_line(descriptor: int, give_up_at: float) -> bytes:
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while not line.endswith(b"\n") and selector.select(max(give_up_at - time.monotonic(), 0)):
            piece = os.read(descriptor, 65536)
            if not piece:
                break
            line += piece
    return line


def _log(directory: Path) -> str:
    return log_file.tail(directory / _LOG)
