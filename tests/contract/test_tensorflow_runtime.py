"""What a server has of TensorFlow without importing its Python: all that graphs may ask for, and errors that are
errors."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warm

_HELD = """
import base64, ctypes, sys
maps = open("/proc/self/maps").read().split()
tensorflow = ctypes.CDLL(next(word for word in maps if word.endswith("libtensorflow_cc.so.2")))
tensorflow.TF_NewStatus.restype = ctypes.c_void_p
class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t)]
print("python" if "tensorflow.python.framework.ops" in sys.modules else "bare")
for function in (tensorflow.TF_GetAllOpList, tensorflow.TF_GetAllRegisteredKernels):
    function.restype = ctypes.POINTER(Buffer)
    buffer = function(ctypes.c_void_p(tensorflow.TF_NewStatus())).contents  # the first one looks at no argument
    print(base64.b64encode(ctypes.string_at(buffer.data, buffer.length)).decode())
"""
_SERVER = """
from tfquiver.service.common_to_servers.tensorflow_servers import tensorflow_runtime
runtime = tensorflow_runtime.load()
"""
_REFUSED = """
import sys
from tfquiver.service.common_to_servers.tensorflow_servers import tensorflow_runtime
runtime = tensorflow_runtime.load()
config = runtime.config.DispatcherConfig(port=0, protocol="none")
try:
    runtime.start_dispatcher(config)
except tensorflow_runtime.StartError as error:
    sys.exit(f"refused: {error}")
"""


@pytest.mark.slow
def test_every_operation_and_kernel_is_there_without_tensorflows_python() -> None:
    whole = _held("from tfquiver.ops.compiling_and_loading import loader\nloader.load()\n", "tensorflow")
    bare = _held(_SERVER, "tensorflow servers")
    assert (whole[0], bare[0]) == ("python", "bare")
    assert "QuiverDataset" in bare[1]
    assert bare[1:] == whole[1:]


def test_what_tensorflow_refuses_is_an_error_and_not_the_end_of_the_process() -> None:
    done = _forked(_REFUSED, "tensorflow servers")
    assert done.returncode == 1
    assert "refused: No credentials factory has been registered for protocol none" in done.stderr


@pytest.mark.slow
@pytest.mark.long
def test_one_that_has_plugins_is_imported_whole(tmp_path: Path) -> None:
    (tmp_path / "tensorflow-plugins").mkdir()
    before = f"import sys; sys.path.append({str(tmp_path)!r})"
    done = _run(f"{before}\n{_SERVER}\nprint(type(runtime.library).__name__)")
    assert done.stdout == "Library\n", done.stderr


@pytest.mark.slow
@pytest.mark.long
def test_tensorflow_can_be_imported_behind_it() -> None:
    done = _forked(
        f"{_SERVER}\nimport tensorflow as tf\nprint(tf.reduce_sum(tf.range(4)).numpy())", "tensorflow servers"
    )
    assert done.stdout == "6\n", done.stderr


def _held(code: str, kind: str) -> tuple[str, list[str], list[tuple[str, str, str, str]]]:
    """Whether TensorFlow's Python is there after `code`; the operations, and the kernels."""
    from tensorflow.core.framework import kernel_def_pb2, op_def_pb2

    done = _forked(code + _HELD, kind)
    assert done.returncode == 0, done.stderr
    how, operations, kernels = done.stdout.splitlines()
    ops = op_def_pb2.OpList.FromString(base64.b64decode(operations)).op
    all_kernels = kernel_def_pb2.KernelList.FromString(base64.b64decode(kernels)).kernel
    names = sorted((one.op, one.device_type, one.label, str(one.constraint)) for one in all_kernels)
    return how, sorted(one.name for one in ops), names


def _forked(code: str, kind: str) -> subprocess.CompletedProcess[str]:
    return warm.run([sys.executable, "-c", code], warm_kind=kind, capture_output=True, text=True, timeout=120)


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
