"""Loads the op library that fits the TensorFlow of this process, and nothing else."""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import platform
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.ops.compiling_and_loading import interface, tensorflows
from tfquiver.ops.compiling_and_loading.told import Told

try:
    import tensorflow as tf
except ModuleNotFoundError as missing:
    if missing.name != "tensorflow":
        raise
    raise errors.TensorFlowError(
        "tfquiver needs TensorFlow here, and there is none: pip install '.[tensorflow]' in a clone of tfquiver, or "
        f"tensorflow-cpu, 'tensorflow[and-cuda]', or another build of {tensorflows.MINORS[0]} to "
        f"{tensorflows.MINORS[-1]}"
    ) from missing

_MOST_NAMED = 3


class Library(Told):
    """The loaded op library: its op, and what this process tells it. All methods are thread-safe.

    Raises TensorFlowError: it was built from other sources than these.
    """

    def __init__(self, path: Path) -> None:
        self._ops = tf.load_op_library(str(path))
        super().__init__(path)
        if found := interface.differences(self._ops, self._c):
            raise errors.TensorFlowError(
                f"{path} is not of the sources of this tfquiver ({'; '.join(found[:_MOST_NAMED])}): compile it again "
                "with `python -m tfquiver.ops.compiling_and_loading.build`, or install tfquiver again, and start this "
                "process anew"
            )

    def quiver_dataset(
        self,
        digest_id: bytes,
        session_key: str,
        options: dict[str, object],
        num_records: int,
        parsing: dict[str, Any] | None = None,
    ) -> Any:
        """The variant tensor, shape [], of a data set whose elements are one string tensor, or parsed.

        Args:
          digest_id: 32 raw bytes.
          session_key: unique for each time a pipeline is distributed.
          options: of the op (ops/core/told_by_python/options.h).
          num_records: in the data set.
          parsing: the op's last input and its attributes; None: records are not parsed.
        """
        text = json.dumps(options, separators=(",", ":"), sort_keys=True)
        return self._ops.quiver_dataset(
            digest_id=digest_id, session_key=session_key, options=text,
            num_records=tf.constant(num_records, tf.int64), **(parsing or {"parse_defaults": []}),
        )  # fmt: skip

    def quiver_once_dataset(self, *, num_records: int, num_shards: int, **inputs: Any) -> Any:
        """The variant tensor, shape [], of each record once; arguments as the op's inputs and attributes."""
        numbers = {"num_records": num_records, "num_shards": num_shards}
        numbers |= {name: inputs.pop(name) for name in ("hold_back", "takeover_ms")}
        return self._ops.quiver_once_dataset(
            **inputs, **{name: tf.constant(number, tf.int64) for name, number in numbers.items()}
        )

    def ends_at_once_dataset(
        self, input_dataset: tf.Tensor, output_types: Any, output_shapes: Any, told_as: str = ""
    ) -> Any:
        """The variant tensor, shape [], of the same elements. `told_as`: the name by which `waiting` knows it."""
        return self._ops.quiver_ends_at_once_dataset(
            input_dataset=input_dataset, output_types=output_types, output_shapes=output_shapes, told_as=told_as
        )

    def waiting(self, name: str, seconds: float) -> tuple[int, float]:
        """Of the data sets of that name: how many iterators have waited for an element for so long, and how long the
        one that did so least."""
        found = (ctypes.c_uint64 * 2)()
        self._c.tfq_waiting(name.encode(), ctypes.c_int64(round(1000 * seconds)), found)
        return int(found[0]), found[1] / 1000

    def delivery_stats(self) -> tuple[int, ...]:
        """Counters of this process: epochs, then records delivered, dropped, mopped up; then takeovers."""
        counters = (ctypes.c_uint64 * 5)()
        self._c.tfq_delivery_stats(counters)
        return tuple(counters)

    def set_epoch(self, session_key: str, epoch: int) -> None:
        """The next iterator of the data set with this key reads that epoch, where it is `Deterministic`."""
        self._c.tfq_set_epoch(session_key.encode(), ctypes.c_int64(epoch))


@functools.cache
def load() -> Library:
    """The library of this process: one of the package's, else one that is compiled here, once (own_build.py).

    Raises errors.TensorFlowError, which is an ImportError, saying what was tried and what to do.
    """
    system = platform.system()
    if system != "Linux":
        raise errors.TensorFlowError(
            f"tfquiver's op and servers run on Linux only, this is {'macOS' if system == 'Darwin' else system}: use a "
            "Linux container or machine"
        )
    library = _load(tensorflows.LIB_DIR)
    # The teardown of TensorFlow's objects waits for iterators that may be waiting for what will never come.
    atexit.register(library.stop_all)
    return library


def loaded() -> Library | None:
    """What `load` has given this process; None: nothing yet."""
    return load() if load.cache_info().currsize else None


def _load(lib_dir: Path) -> Library:
    name = tensorflows.library_name(tf.__version__)
    if (lib_dir / name).is_file():
        try:
            return Library(lib_dir / name)
        except tf.errors.NotFoundError as error:
            why = f"{lib_dir / name} does not load: {_shortened(error)}"
    else:
        brought = sorted(path.name for path in lib_dir.glob("libtfquiver_tf*.so"))
        why = f"{lib_dir} has no {name}, only {', '.join(brought)}" if brought else f"{lib_dir} has no libraries"
    from tfquiver.ops.compiling_and_loading import build, own_build  # mostly of no use

    try:
        return Library(own_build.library(tensorflows.installed()))
    except build.BuildError as error:
        problem = str(error)
    except OSError as error:
        problem = f"nowhere to keep what is compiled (say where in XDG_CACHE_HOME): {error}"
    except tf.errors.NotFoundError as error:
        problem = f"what was compiled does not load: {_shortened(error)}"
    raise errors.TensorFlowError(
        f"tfquiver has no op for TensorFlow {tf.__version__}: {why}; and compiling one here failed: {problem}\n"
        "Mend that, or install tfquiver from a wheel that `make package` has made, with TensorFlow "
        f"{', '.join(tensorflows.MINORS)}: it has the op compiled."
    )


def _shortened(error: Exception) -> str:
    """What the dynamic linker said; the common case in words."""
    text = str(error).split("\n", 1)[0]
    if "GLIBC" in text:
        libc = " ".join(platform.libc_ver())
        return f"it needs a newer C or C++ library than this machine's ({libc}): {text}"
    return text
