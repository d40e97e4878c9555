"""Directories as sources: what stands for all files in and under one."""

from __future__ import annotations

import glob
from pathlib import Path

from tfquiver import stores
from tfquiver.stores.local import path_of
from tfquiver.stores.patience import Patience

_DEADLINE_S = 60.0
_PATIENCE = Patience()


def beneath(source: str) -> str:
    """The pattern of a directory's files: of one that is on this machine, or of what ends in a slash; else `source`
    itself. A local directory's name means itself, whatever is in it.

    Blocks on the disk. Raises UnavailableError: its file server does not answer.
    """
    if stores.scheme_of(source) == "file":
        path = Path(path_of(source)).expanduser()
        if _PATIENCE.call(source, _DEADLINE_S, path.is_dir):
            return f"{glob.escape(str(path)).rstrip('/')}/**"
    return f"{source.rstrip('/')}/**" if source.endswith("/") else source
