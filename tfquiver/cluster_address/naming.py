"""What a process calls what it reads from and what it reads: the cluster, and its sessions."""

from __future__ import annotations

import os
import re
import sys
import uuid
from pathlib import Path

from tfquiver import errors
from tfquiver.cluster_address import service_name
from tfquiver.grpc_plumbing import addresses
from tfquiver.node_daemon_and_notes_in_directories import server_file, up_file

_MOST_OF_PROGRAM = 24
_NOTEBOOKS = ("ipykernel_launcher", "colab_kernel_launcher")


def cluster(
    cache_dir: str | os.PathLike[str] | None, service: object
) -> tuple[str | os.PathLike[str] | None, str | None]:
    """The arguments of these names; without either, what TFQUIVER_SERVICE names.

    A directory as `service` is a cache_dir, that in which a coordinator runs leads to it. Raises InvalidArgumentError.
    """
    if cache_dir is None and service is None:
        if not (named := service_name.chosen(None)):
            raise errors.InvalidArgumentError(
                "give cache_dir= (one machine) or service= (a coordinator's address), or both, or set "
                f"{service_name.VARIABLE}"
            )
        return (None, named) if addresses.is_address(named) else (named, None)
    if cache_dir is not None:
        _check_of_this_machine(cache_dir)
    if service is None or (isinstance(service, str) and addresses.is_address(service)):
        return cache_dir, service
    if cache_dir is None and isinstance(service, str | os.PathLike) and _is_directory(service):
        server = server_file.running(Path(service).expanduser())
        return (None, server.coordinator) if server else (service, None)
    if cache_dir is not None and isinstance(service, str | os.PathLike) and _is_directory(service):
        raise errors.InvalidArgumentError(
            f"service={service!r} names a cache directory, and so does cache_dir={os.fspath(cache_dir)!r}: give one "
            "of them; beside cache_dir= service= is a coordinator's host:port"
        )
    raise errors.InvalidArgumentError(
        f"service={service!r}: must be host:port, unix:/path, or a cache directory that is there"
    )


def dispatcher(given: object) -> str:
    """host:port of the dispatcher: as given; of the `tfquiver up` of a cache directory, given or in TFQUIVER_SERVICE.

    Raises InvalidArgumentError; NotFoundError: `up` does not run there, or there is no such directory.
    """
    if given is None:
        given = service_name.chosen(None)
        if not given or addresses.is_address(str(given)):
            raise errors.InvalidArgumentError(
                f"dispatcher=None: give the dispatcher's address, or name in {service_name.VARIABLE} a cache directory "
                "in which `tfquiver up` runs"
            )
        return up_file.dispatcher_address(str(given))
    if isinstance(given, str | os.PathLike) and _is_directory(given):
        server = server_file.running(Path(given).expanduser())
        if server and server.server == "dispatcher":
            return server.address
        return up_file.dispatcher_address(given)
    address = given.removeprefix("grpc://") if isinstance(given, str) else ""
    if isinstance(given, os.PathLike) or (os.sep in address and address == given):
        raise errors.NotFoundError(
            f"dispatcher={str(given)!r}: no such directory; `tfquiver up` makes it, and runs a dispatcher there"
        )
    if not addresses.is_host_port(address):
        raise errors.InvalidArgumentError(
            f"dispatcher={given!r}: must be host:port, [IPv6 address]:port, or a cache directory of `tfquiver up`"
        )
    return address


def dispatcher_directory(given: object) -> str:
    """Where the dispatcher that `dispatcher(given)` has found keeps its journal and data sets: in words, where this
    process does not know it."""
    named = service_name.chosen(None) if given is None else given
    if not isinstance(named, str | os.PathLike) or not _is_directory(named):
        return "its --work_dir (its log names it)"
    directory = Path(named).expanduser()
    server = server_file.running(directory)
    return str(directory if server and server.server == "dispatcher" else directory / "dispatcher")


def session_key(scheme: str = "") -> str:
    """Unlike every other one; ends with the program's name, by which people recognise its sessions, and where its
    epochs are drawn by a scheme of sampling, with that."""
    key = f"{uuid.uuid4().hex}-{program(sys.argv[0] if sys.argv else '')}"
    if not scheme:
        return key
    from tfquiver.messages_and_binary_formats.drawn_shards import KEY_MARK  # most epochs are of shards

    return f"{key}{KEY_MARK}{scheme}"


def stream_key(stream: str) -> str:
    """The session key of all who name this stream, whatever they read with."""
    return "stream-" + stream.encode().hex()


def program(started_as: str) -> str:
    """`train` of `/home/ann/train.py`."""
    path = Path(started_as)
    stem = path.parent.name if path.name == "__main__.py" else path.stem
    if stem in _NOTEBOOKS:
        return "notebook"
    return re.sub(r"[^A-Za-z0-9._-]+", "_", stem)[:_MOST_OF_PROGRAM].strip("_.-") or "python"


def _check_of_this_machine(cache_dir: object) -> None:
    """What would be made as a directory in the working directory, and is meant as something else. Raises
    InvalidArgumentError."""
    if not isinstance(cache_dir, str):
        return
    if "://" in cache_dir:
        raise errors.InvalidArgumentError(
            f"cache_dir={cache_dir!r}: must be a directory on a fast disk of this machine; stores stand in the source, "
            'as in tfquiver.dataset("gs://bucket/train-*")'
        )
    if addresses.is_address(cache_dir) and not _is_directory(cache_dir):
        raise errors.InvalidArgumentError(
            f"cache_dir={cache_dir!r}: an address: a coordinator is given as service={cache_dir!r}"
        )


def _is_directory(path: str | os.PathLike[str]) -> bool:
    try:
        return Path(path).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # the last of these: nobody has that home
        return False
