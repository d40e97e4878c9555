"""By which id the coordinator knows a dispatcher again that is started at another address: it goes with its work_dir.

Called when the dispatcher starts. Never keeps it from starting."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from absl import logging

from tfquiver import durable

FILE = "dispatcher_id"
_MOST_BYTES = 64
_ID = re.compile(r"dispatcher-[0-9a-f]{32}")


def read_or_make(work_dir: Path) -> str:
    """Only by who holds the directory. "" where its disk keeps none: the dispatcher goes on, known by its address."""
    path = work_dir / FILE
    try:
        known = _read(path)
        if _ID.fullmatch(known):
            return known
        made = f"dispatcher-{secrets.token_hex(16)}"
        durable.write(path, [made.encode() + b"\n"])
        return made
    except OSError as error:
        logging.warning("%s: %s: started again at another address this dispatcher is missed", path, error.strerror)
        return ""


def _read(path: Path) -> str:
    """What is no file of ours counts as none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, _MOST_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
