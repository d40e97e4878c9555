"""The library that Bazel built has what the package's own build gives it. Runs under Bazel only (BUILD)."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path

import pytest

RUNFILES = os.environ.get("TEST_SRCDIR")


@pytest.mark.skipif(not RUNFILES, reason="run by `make bazel`")
def test_bazel_built_library_loads_in_tensorflow() -> None:
    import tensorflow as tf

    (path,) = Path(str(RUNFILES)).rglob("libtfquiver.so")
    ops = tf.load_op_library(str(path))
    assert hasattr(ops, "quiver_dataset")
    library = ctypes.CDLL(str(path))
    library.tfq_build_info.restype = ctypes.c_char_p
    built_for = json.loads(library.tfq_build_info())
    assert tf.__version__ in built_for.values()
