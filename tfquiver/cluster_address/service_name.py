"""How people name a cluster, in every command and function: the coordinator's address, or a cache directory.

Where nothing is given the environment variable TFQUIVER_SERVICE names it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.node_daemon_and_notes_in_directories import server_file, up_file
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint
from tfquiver.plain_text import shortened

VARIABLE = "TFQUIVER_SERVICE"
_OF_CLUSTERS = ("node.lock", up_file.LOCK_FILE, server_file.FILE)  # a directory of a data set may be called as that is


def chosen(given: str | os.PathLike[str] | None, environment: Mapping[str, str] = os.environ) -> str:
    """`given`, or what the environment names; "": neither names one."""
    return os.fspath(given) if given else environment.get(VARIABLE, "")


def directory_of(where: str) -> Path | None:
    """The cache directory that is meant, there or not yet; None: an address is. Raises InvalidArgumentError: nobody has
    that home, or it is a URI."""
    if addresses.is_address(where):
        return None
    if "://" in where:  # else a directory `gs:` would be made
        raise errors.InvalidArgumentError(
            f"{shortened(where)} is neither host:port nor a directory of this machine{_meant(where)}"
        )
    try:
        return Path(where).expanduser()
    except RuntimeError as error:
        raise errors.InvalidArgumentError(f"{shortened(where)}: {error}") from error


def directory_to_use(where: str) -> Path | None:
    """As `directory_of`, where one that is not there yet is made.

    Raises InvalidArgumentError: a word alone, and no directory that is there; more likely an address that was mistyped
    than a new cache directory in the working directory.
    """
    directory = directory_of(where)
    if directory is None or os.sep in where:
        return directory
    if not _is_there(directory) and where != "~":
        raise errors.InvalidArgumentError(
            f"{shortened(where)} is neither host:port nor a directory that is there; a new cache directory "
            f"of that name is ./{shortened(where)}"
        )
    return directory


def directory_there(where: str) -> Path | None:
    """As `directory_of`. Raises InvalidArgumentError also where there is none."""
    directory = directory_of(where)
    if directory is None or _is_there(directory):
        return directory
    if _is_file(directory):
        raise errors.InvalidArgumentError(f"{shortened(where)} is a file: name a cache directory, or host:port")
    meant = _meant(where) or ": a cache directory is made by the first job or server that uses it"
    raise errors.InvalidArgumentError(f"{shortened(where)} is neither host:port nor a directory that is there{meant}")


def _meant(where: str) -> str:
    """What may have been meant by what is nearly an address; "": nobody knows (pure)."""
    if found := re.fullmatch(r"(?:https?|grpc)://([^/]+)/?", where):
        return f": write {found[1]}" if addresses.is_address(found[1]) else ""
    if where.isascii() and where.isdecimal() and addresses.is_address(f"localhost:{where}"):
        return f": a port stands behind its host, as in localhost:{where}"
    if where == "localhost" or re.fullmatch(r"[0-9]+(\.[0-9]+){3}", where):
        return f": its port is missing, as in {where}:5040"
    if found := re.fullmatch(r"[A-Za-z0-9.-]+:(-?[0-9]{1,9})", where):
        return f": there is no port {found[1]}, they are 1 to 65535"
    return ""


def coordinator_address(where: str) -> str:
    """`where` itself when it is an address; else that of the node that runs in this directory, or of the coordinator or
    the dispatcher whose --work_dir it is.

    Raises:
      InvalidArgumentError: it is neither.
      NotFoundError, DataLossError: no node has been ready in this directory, or what it wrote is damaged.
      UnavailableError: `tfquiver up` is just starting there.
    """
    directory = directory_there(where)
    if directory is None:
        return where
    if server := server_file.running(directory):
        return server.coordinator
    try:
        return read_endpoint(directory).coordinator
    except errors.NotFoundError:
        if (pid := up_file.pid_text(directory)) is None:
            raise
    if not (port := up_file.read(directory).coordinator):
        raise errors.UnavailableError(
            f"{shortened(where)}: `tfquiver up` (pid {pid or 'unknown'}) is just starting there: try again"
        )
    return f"localhost:{port}"


def is_where(name: str) -> bool:
    """Whether what stands in another argument's place may name a cluster: an address, or a directory of servers."""
    if not name or addresses.is_address(name):
        return bool(name)
    try:
        directory = Path(name).expanduser()
        return directory.is_dir() and any((directory / file).exists() for file in _OF_CLUSTERS)
    except (OSError, ValueError, RuntimeError):
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _is_there(directory: Path) -> bool:
    try:
        return directory.is_dir()
    except (OSError, ValueError):  # longer than a path can be, for one
        return False
