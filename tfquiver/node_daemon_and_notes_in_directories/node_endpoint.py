"""Where a node of this machine is reached, as it says itself in `<cache_dir>/node.json` (docs/protocol.md)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from tfquiver import durable, errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.node_daemon_and_notes_in_directories import server_file, up_file, whose_files
from tfquiver.plain_text import for_shell

NODE_FILE = "node.json"
NODE_FILE_VERSION = 1
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class NodeEndpoint:
    """The reader socket's path, and two gRPC addresses (host:port or unix:/path)."""

    socket: str
    control: str
    coordinator: str
    node_id: str

    @property
    def local_control(self) -> str:
        """The control service on this machine: what is said there does not leave it."""
        return f"unix:{Path(self.socket).with_name('control.sock')}"


def read_endpoint(cache_dir: Path) -> NodeEndpoint:
    """What the last node of `cache_dir` wrote when it was ready; it may be gone.

    Raises:
      NotFoundError: no node has been ready in this directory.
      PermissionError_: this user may not look.
      DataLossError: the file is damaged, or of another version.
    """
    path = cache_dir / NODE_FILE
    try:
        fields = json.loads(durable.read(path, _MOST_BYTES))
        if fields["version"] != NODE_FILE_VERSION:
            raise ValueError(f"version {fields['version']}, not {NODE_FILE_VERSION}")
        found = NodeEndpoint(*(str(fields[name]) for name in ("socket", "control", "coordinator", "node_id")))
        _check(found)
        return found
    except PermissionError as error:
        raise errors.PermissionError_(f"{path}: {error.strerror}: the directory is another user's") from error
    except FileNotFoundError as error:
        raise errors.NotFoundError(f"no node runs in {cache_dir}; {_starts_one(cache_dir)}") from error
    except OSError as error:
        raise errors.NotFoundError(f"{path}: {error.strerror}: no node runs in {cache_dir}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise errors.DataLossError(
            f"{path} is damaged ({error}); stop the node of this directory, start it again"
        ) from error


def _check(found: NodeEndpoint) -> None:
    """Raises ValueError: what cannot be connected to, or said."""
    for text in (found.socket, found.control, found.coordinator, found.node_id):
        if not text or "\0" in text:
            raise ValueError(f"{text!r}")
        os.fsencode(text)
    if not Path(found.socket).is_absolute():
        raise ValueError(f"socket {found.socket!r}")
    for address in (found.control, found.coordinator):
        if not addresses.is_address(address):
            raise ValueError(f"address {address!r}")


def _starts_one(cache_dir: Path) -> str:
    if files := whose_files.others(cache_dir):
        return f"it is {files}; name what cache_dir= or `tfquiver up` was given"
    if others := server_file.again(cache_dir):
        return others
    if up_file.read(cache_dir).coordinator:
        return f"`tfquiver up {for_shell(cache_dir)}` starts again what ran there"
    return (
        "a process that calls tfquiver.dataset with this cache_dir starts one for as long as it is used, tfquiver-node "
        f"--cache_dir={for_shell(cache_dir)} one that stays"
    )
