"""The packages that the demo needs, looked for before anything is started."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from tfquiver import errors

# By the module that is imported, what pip calls it.
_OF_DEMO = {
    "google.cloud.storage": "google-cloud-storage",
    "gcp_storage_emulator": "gcp-storage-emulator",
    "mlxtend": "mlxtend",
}
_TENSORFLOW = "tensorflow"


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
