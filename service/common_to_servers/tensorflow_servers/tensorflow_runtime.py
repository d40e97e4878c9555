"""TensorFlow in a server: its C++ libraries, and where that is known to do, nothing of its Python.

A server runs graphs. Of the 3.4 s of CPU that one took to start `import tensorflow` was 2.9; with its extension modules
alone one takes 0.8. Every operation and kernel is in them: `tests/contract/test_tensorflow_runtime.py` compares.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from absl import logging

from tfquiver.ops.compiling_and_loading import interface, tensorflows
from tfquiver.ops.compiling_and_loading.told import Told
from tfquiver.service.common_to_servers.tensorflow_servers.without_keras import without_keras

_SERVICE = "tensorflow.python.data.experimental.service._pywrap_server_lib"
_CONFIG = "tensorflow.core.protobuf.service_config_pb2"
_TF2 = "tensorflow.python.platform._pywrap_tf2"
# What TensorFlow's Python loads besides.
_FURTHER = ("lite/experimental/microfrontend/python/ops/_audio_microfrontend_op.so",)


class StartError(Exception):
    """A server of TensorFlow's does not start; says why."""


@dataclass(frozen=True)
class Runtime:
    """`config`: the protos of the servers' settings."""

    version: str
    library: Told
    config: Any
    _service: Any

    def start_dispatcher(self, config: Any) -> Any:
        """With this DispatcherConfig. What it returns has `stop()`. Raises StartError."""
        return _started(self._service.TF_DATA_NewDispatchServer, config)

    def start_worker(self, config: Any) -> Any:
        """As `start_dispatcher`, with a WorkerConfig."""
        return _started(self._service.TF_DATA_NewWorkerServer, config)


def _started(make: Callable[[bytes], Any], config: Any) -> Any:
    server = None
    try:
        server = make(config.SerializeToString())
        server.start()
    except (RuntimeError, ValueError, IndexError) as error:  # what its Python bindings make of a status
        # The destructor of one that has not started crashes (seen with 2.21).
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
        raise StartError(str(error)) from error
    return server


def load() -> Runtime:
    """Once in a process.

    Raises TensorFlowError: there is no TensorFlow here, or none that the op can be had for.
    """
    found = None if "tensorflow" in sys.modules else _place()
    if found is not None:
        folder, library = found
        try:
            return _without_python(folder, library)
        except (ImportError, OSError, AttributeError) as error:
            logging.info("TensorFlow's Python is imported, too: %s", error)
    return _whole()


def _place() -> tuple[Path, Path] | None:
    """TensorFlow's folder, and the op's library for it; None: one that is better imported as its makers thought."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations or _has_plugins():
        return None
    folder = Path(spec.submodule_search_locations[0])
    version = tensorflows.version_beside(folder)
    library = tensorflows.LIB_DIR / tensorflows.library_name(version)
    return (folder, library) if tensorflows.can_be_without_python(version) and library.is_file() else None


def _has_plugins() -> bool:
    """Kernels and devices of others, which TensorFlow's Python loads."""
    if any(os.environ.get(name) for name in ("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "TF_USE_MODULAR_FILESYSTEM")):
        return True
    return any(Path(entry, "tensorflow-plugins").exists() for entry in sys.path)


def _without_python(folder: Path, library: Path) -> Runtime:
    with _folders_only(folder):
        config, service, tf2 = map(import_module, (_CONFIG, _SERVICE, _TF2))
    for further in _FURTHER:
        if (folder / further).exists():
            ctypes.CDLL(str(folder / further))
    told = Told(library)  # its ops and kernels register themselves
    if missing := interface.missing_functions(told.functions):
        raise AttributeError(f"{library}: {', '.join(missing)}")
    atexit.register(told.stop_all)  # as ops/compiling_and_loading/loader.py says
    # What `import tensorflow` does for C++ code.
    os.environ.setdefault("ENABLE_RUNTIME_UPTIME_TELEMETRY", "1")
    os.environ["TF2_BEHAVIOR"] = "1"
    tf2.enable(True)
    return Runtime(tensorflows.version_beside(folder), told, config, service)


@contextmanager
def _folders_only(folder: Path) -> Iterator[None]:
    """In here packages of TensorFlow are what their folders hold; their own code is not run."""
    packages: dict[str, ModuleType] = {}
    for module in (_SERVICE, _CONFIG, _TF2):
        names = module.split(".")[:-1]
        for length in range(1, len(names) + 1):
            name = ".".join(names[:length])
            packages[name] = package = ModuleType(name)
            package.__path__ = [str(folder.joinpath(*names[1:length]))]
    sys.modules.update(packages)
    try:
        yield
    finally:
        for name in packages:
            del sys.modules[name]


def _whole() -> Runtime:
    with without_keras():
        from tfquiver.ops.compiling_and_loading import loader

    library = loader.load()
    import tensorflow as tf

    return Runtime(tf.__version__, library, import_module(_CONFIG), import_module(_SERVICE))
