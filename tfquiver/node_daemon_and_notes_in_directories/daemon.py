"""Finds the node daemon of a cache directory on this machine, or starts one.

Processes that share a `cache_dir` share one daemon without being told: it holds a lock in the directory and writes
`node.json` when it is ready. Whoever comes first starts it, detached; it leaves by itself when nobody has used it for a
while. It logs to `<cache_dir>/log/node.log`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from absl import logging

from tfquiver import closed_streams, durable, errors
from tfquiver.log_files_and_lines import log_file
from tfquiver.messages_and_binary_formats import greeting_frames as frames
from tfquiver.node_daemon_and_notes_in_directories import cluster_file, up_file, whose_files
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint, read_endpoint
from tfquiver.node_daemon_and_notes_in_directories.starting import LOG, POLL_S, start
from tfquiver.server_reachability import unreached
from tfquiver.server_reachability.greeting import greeted
from tfquiver.server_reachability.reminders import Reminders

IDLE_EXIT_S = 60
_CONNECT_S = 5.0


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
    """The daemon of this cache directory, started if need be. Where `tfquiver up` runs, or the directory is that of a
    cluster's node, that node is waited for.

    Args:
      cache_dir: made when it is not there, readable by this user only.
      quota_bytes: of a daemon that is started; None: that of the last one there, else 80 % of what is free. A
        daemon that runs keeps its own.
      timeout_s: for all of it.
      idle_exit_s: a daemon that is started leaves when nobody has used it for that long.

    Raises:
      UnavailableError: it could not be started, with the last lines of its log; or it is a cluster's, and does not run.
      DeadlineError: it was not ready in time.
    """
    directory = Path(cache_dir).absolute()
    closed_streams.numbers_taken()
    began_at = time.monotonic()
    give_up_at, reminders = began_at + timeout_s, Reminders(began_at)
    while (endpoint := find(directory)) is None:
        if others := _whose_node(directory):  # waited for by all at once: the lock is for who starts
            time.sleep(POLL_S)
            if reminders.is_due(now := time.monotonic()) and now < give_up_at:
                logging.warning("%s: %s; waiting for it %s", directory, others, unreached.until(give_up_at - now))
        else:
            _make(directory)
            with only_one_starts(directory, give_up_at):
                if find(directory) is None and not _whose_node(directory):
                    if warning := whose_files.beside(directory):
                        logging.warning("cache_dir %s: %s", directory, warning)
                    _make(directory)  # it may have been deleted while this process waited for its turn
                    start(directory, quota_bytes, idle_exit_s, give_up_at)
        if time.monotonic() > give_up_at:
            raise _not_in_time(directory, timeout_s)
    return endpoint


def _not_in_time(directory: Path, timeout_s: float) -> errors.TfquiverError:
    if (coordinator := _cluster_of(directory)) and not up_file.is_up(directory):
        return errors.UnavailableError(
            f"cache_dir {directory}: {_whose_node(directory)}. Start it (tfquiver-node --coordinator={coordinator} "
            f"--cache_dir={directory}), or use another directory; where that cluster is no more, delete "
            f"{directory / cluster_file.FILE}"
        )
    return errors.DeadlineError(f"no node for cache_dir {directory} in {timeout_s:g} s:\n{_log(directory)}")


def _whose_node(directory: Path) -> str:
    """Words for a node that is to run there and that is not ours to start; "": there is none."""
    if up_file.is_up(directory):
        return "`tfquiver up` runs there, its node is not ready yet"
    if coordinator := _cluster_of(directory):
        return f"it is a node's of the cluster at {coordinator}, and that node does not run"
    return ""


def _cluster_of(directory: Path) -> str:
    """The coordinator's address; "": of none, or of what `tfquiver up` ran there and runs no more."""
    coordinator = cluster_file.read(directory)
    return "" if coordinator == f"localhost:{up_file.read(directory).coordinator}" else coordinator


def _make(directory: Path) -> None:
    """With a place for the log. Raises InvalidArgumentError."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise errors.InvalidArgumentError(f"cache_dir {directory}: {durable.why_not_made(directory, error)}") from error
    try:
        durable.private_directory(directory / "log")
    except OSError as error:
        raise errors.InvalidArgumentError(f"cache_dir {directory}: log: {durable.why_not_used(error)}") from error


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
            time.sleep(POLL_S)
        yield
    finally:
        os.close(lock)


def _log(directory: Path) -> str:
    return log_file.tail(directory / LOG)
