"""Loads the op library that fits the TensorFlow of this process, and nothing else."""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfquiver.ops import build

LIB_DIR = Path(__file__).resolve().parent / "lib"


class Library:
    """The loaded op library: its op, and what this process tells it. All methods are thread-safe."""

    def __init__(self, path: Path) -> None:
        self._ops = tf.load_op_library(str(path))
        self._c = ctypes.CDLL(str(path))
        self._c.tfq_build_info.restype = ctypes.c_char_p
        self.path = path

    def quiver_dataset(self, digest_id: bytes, session_key: str, options: dict[str, object], num_records: int) -> Any:
        """The variant tensor, shape [], of a data set whose elements are one string tensor.

        Args:
          digest_id: 32 raw bytes.
          session_key: unique for each time a pipeline is distributed.
          options: of the op (ops/core/options.h).
          num_records: in the data set.
        """
        text = json.dumps(options, separators=(",", ":"), sort_keys=True)
        return self._ops.quiver_dataset(
            digest_id=digest_id, session_key=session_key, options=text, num_records=tf.constant(num_records, tf.int64)
        )

    def quiver_once_dataset(self, *, num_records: int, num_shards: int, **inputs: Any) -> Any:
        """The variant tensor, shape [], of each record once; arguments as the op's inputs and attributes."""
        numbers = {"num_records": num_records, "num_shards": num_shards}
        numbers |= {name: inputs.pop(name) for name in ("hold_back", "takeover_ms")}
        return self._ops.quiver_once_dataset(
            **inputs, **{name: tf.constant(number, tf.int64) for name, number in numbers.items()}
        )

    def delivery_stats(self) -> tuple[int, ...]:
        """Counters of this process: epochs, then records delivered, dropped, mopped up; then takeovers."""
        counters = (ctypes.c_uint64 * 5)()
        self._c.tfq_delivery_stats(counters)
        return tuple(counters)

    def set_endpoint(self, name: str, socket_path: str) -> None:
        """Says where the node called `name` in graphs listens; "" is used for names that this process does not know."""
        self._c.tfq_set_endpoint(name.encode(), socket_path.encode())

    def set_label(self, label: str) -> None:
        """Names this process to nodes (the address of its tf.data worker)."""
        self._c.tfq_set_label(label.encode())

    def set_restoring(self, restoring: bool) -> None:
        """While true, new split providers adopt the session that is open: set it around a dispatcher's restart."""
        self._c.tfq_set_restoring(int(restoring))

    def stop_all(self) -> None:
        """Ends every iterator of this process, and new ones until `resume_all`, with CANCELLED. Does not wait.

        A tf.data worker joins threads that may wait in an iterator: call this before stopping one.
        """
        self._c.tfq_stop_all()

    def resume_all(self) -> None:
        """Undoes `stop_all` for iterators made from now on."""
        self._c.tfq_resume_all()

    def leave_after(self, timeout_s: float) -> None:
        """Ends this process, with exit code 0, when it still runs then; whatever holds the interpreter's lock."""
        self._c.tfq_leave_after(round(timeout_s * 1000))

    def build_info(self) -> dict[str, str]:
        """What the library was built with: `tensorflow`, `compiler`."""
        info: dict[str, str] = json.loads(self._c.tfq_build_info().decode())
        return info


def library_path(tensorflow_version: str, lib_dir: Path = LIB_DIR) -> Path:
    """The library for this TensorFlow. Raises ImportError, saying what was built, what was found and what to run."""
    path = lib_dir / build.library_name(tensorflow_version)
    if path.is_file():
        return path
    built = sorted(found.name for found in lib_dir.glob("libtfquiver_tf*.so"))
    raise ImportError(
        f"tfquiver's op library is not built for TensorFlow {tensorflow_version} (needed: {path.name}; "
        f"built: {', '.join(built) or 'none'}; looked in {lib_dir}). An op library works with one minor version of "
        "TensorFlow only. Run `python -m tfquiver.ops.build` to build it for this TensorFlow, or install the "
        "TensorFlow it was built for."
    )


@functools.cache
def load() -> Library:
    """The library of this process. Raises ImportError as `library_path` does, or when TensorFlow refuses the file."""
    path = library_path(tf.__version__)
    try:
        library = Library(path)
    except tf.errors.NotFoundError as error:
        raise ImportError(
            f"TensorFlow {tf.__version__} cannot load {path}: {error.message}. It was built for another build of "
            "TensorFlow. Run `python -m tfquiver.ops.build` to build it for this one."
        ) from error
    # The teardown of TensorFlow's objects waits for iterators that may be waiting for what will never come.
    atexit.register(library.stop_all)
    return library
