"""The reader library of this process: the package's, else one that is compiled here, once (own_build.py).

Imports no TensorFlow.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from pathlib import Path

from tfquiver import errors

READER = "libtfquiver_reader.so"
LIB_DIR = Path(__file__).resolve().parents[1] / "lib"
INTERFACE = 2  # tfq_reader_interface of the C++ that this package has


@functools.cache
def load() -> ctypes.CDLL:
    """Raises errors.ReaderLibraryError, which is an ImportError, saying what was tried and what to do."""
    if (system := platform.system()) != "Linux":
        raise errors.ReaderLibraryError(
            f"tfquiver's readers and servers run on Linux only, this is {'macOS' if system == 'Darwin' else system}: "
            "use a Linux container or machine"
        )
    from tfquiver.ops.compiling_and_loading import build, own_build  # not for what is there already

    path = LIB_DIR / READER
    why = f"{LIB_DIR} has no {READER}"
    if path.is_file():
        try:
            return _opened(path)
        except OSError as error:
            why = f"{path} does not load: {error}"
    try:
        return _opened(own_build.library(None))
    except build.BuildError as error:
        problem = str(error)
    except OSError as error:
        problem = f"what was compiled does not load, or cannot be kept (say where in XDG_CACHE_HOME): {error}"
    raise errors.ReaderLibraryError(
        f"tfquiver has no reader library here: {why}; and compiling one failed: {problem}\n"
        "Mend that, or install tfquiver from a wheel that `make package` has made: it has the library compiled."
    )


@functools.cache
def brought() -> ctypes.CDLL | None:
    """The package's, for who can do without: nothing is compiled. None: it has none that is of its sources."""
    try:
        return _opened(LIB_DIR / READER)
    except OSError:
        return None


def _opened(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    try:
        interface = library.tfq_reader_interface()
    except AttributeError:
        interface = 0
    if interface != INTERFACE:
        raise OSError(f"it has interface {interface}, this tfquiver needs {INTERFACE}: compile it again")
    return library
