"""What may stand where a server's small file is to be, and is no file."""

from __future__ import annotations

import os
from pathlib import Path

KINDS = ("a pipe", "a directory", "a device")


def put(path: Path, what: str) -> None:
    """`what`: of KINDS. Who opens the pipe to read it waits; the device has no end."""
    if what == "a pipe":
        os.mkfifo(path)
    elif what == "a directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
