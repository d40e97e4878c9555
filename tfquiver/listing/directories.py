"""Directories as sources: what stands for all files in and under one."""

from __future__ import annotations

import glob
import os

from tfquiver import stores
from tfquiver.stores.hanging_file_systems.patience import Patience
from tfquiver.stores.local import path_of

_DEADLINE_S = 60.0
_PATIENCE = Patience()


def beneath(source: str, hidden: bool) -> str:
    """The pattern of a directory's files: of one that is on this machine, or of what ends in a slash; else `source`
    itself. A local directory's name means itself, whatever is in it.

    Args:
      hidden: also those on this machine whose names begin with a dot. They belong to a tree of files (Zarr's tables are
        such); among records they are what editors, consoles and copies under way leave behind.

    Blocks on the disk. Raises UnavailableError: its file server does not answer.
    """
    if stores.scheme_of(source) == "file":
        # These two say no where pathlib would raise: what is wrong with the path is for the listing to tell.
        path = os.path.expanduser(path_of(source))  # noqa: PTH111
        if _PATIENCE.call(source, _DEADLINE_S, lambda: os.path.isdir(path)):  # noqa: PTH112
            return f"{glob.escape(path).rstrip('/')}/{'***' if hidden else '**'}"
    return f"{source.rstrip('/')}/**" if source.endswith("/") else source
