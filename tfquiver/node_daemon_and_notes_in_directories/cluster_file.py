"""Which cluster's node a cache directory is: `<cache_dir>/cluster`, the coordinator's address.

The node writes it. It stays when the node ends, however that happens, so that no trainer starts a node of its own there
meanwhile, which would know none of the cluster's data sets and keep the cluster's own node out.
"""

from __future__ import annotations

from pathlib import Path

from tfquiver import durable, errors
from tfquiver.grpc_plumbing import addresses

FILE = "cluster"
_MOST_BYTES = 4096


def write(directory: Path, coordinator: str) -> None:
    """Writes nothing where that is said already: the disk may be full. Raises the typed error of a failed write.

    Args:
      coordinator: host:port or unix:/path; "": the node there is its own.
    """
    path = directory / FILE
    if coordinator and read(directory) == coordinator:
        return
    try:
        if coordinator:
            durable.write(path, [coordinator.encode() + b"\n"])
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise errors.from_os_error(error, str(path)) from error


def read(directory: Path) -> str:
    """The coordinator's address; "": the directory is no cluster's, the file says none, or this user may not look."""
    try:
        said = durable.read(directory / FILE, _MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return said if addresses.is_address(said) else ""
