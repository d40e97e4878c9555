"""What the demo needs, looked for before anything is started: packages, and a place for its files."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from tfquiver import errors
from tfquiver.plain_text import plain
from tfquiver.sizes_durations_amounts.amounts import of_bytes

# By the module that is imported, what pip calls it.
_OF_DEMO = {
    "google.cloud.storage": "google-cloud-storage",
    "gcp_storage_emulator": "gcp-storage-emulator",
    "mlxtend": "mlxtend",
}
_TENSORFLOW = "tensorflow"
_MOST_BYTES = 40_000_000  # half of it are logs and what is cached by two workers
_TMPDIR = "name another directory in TMPDIR"


def is_here(module: str) -> bool:
    """Nothing is imported but the packages that `module` is in."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def check(is_here: Callable[[str], bool] = is_here) -> None:
    """Raises NotFoundError naming what is missing, and the command that brings it."""
    missing = [package for module, package in _OF_DEMO.items() if not is_here(module)]
    extras = ["demo"] if missing else []
    if not is_here(_TENSORFLOW):
        missing, extras = [*missing, _TENSORFLOW], [*extras, _TENSORFLOW]
    if missing:
        raise errors.NotFoundError(
            f"the demo needs {' and '.join(missing)}: pip install '.[{','.join(extras)}]' in a clone of tfquiver"
        )


def place(room_bytes: int = _MOST_BYTES) -> Path:
    """The directory for temporary files. Raises NotFoundError: none can be written in; ResourceExhaustedError: it has
    no room."""
    try:
        found = Path(tempfile.gettempdir())
        free_bytes = shutil.disk_usage(found).free
    except OSError as error:
        raise errors.NotFoundError(f"the demo needs a place for its files: {error.strerror}: {_TMPDIR}") from error
    if free_bytes < room_bytes:
        raise errors.ResourceExhaustedError(
            f"the demo takes {of_bytes(room_bytes)} of {plain(found)}, where {of_bytes(free_bytes)} are free: {_TMPDIR}"
        )
    return found
