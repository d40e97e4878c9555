"""What the built library exports and needs, and which one is loaded."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from tfquiver.ops.compiling_and_loading import build, interface, loader, tensorflows

USE = """
import sys
from pathlib import Path
from tfquiver.service.common_to_servers.tensorflow_servers.without_keras import without_keras
with without_keras():
    import tensorflow
from tfquiver.ops.compiling_and_loading import loader
loader._load(Path(sys.argv[1]))
"""


def test_loads_for_this_tensorflow() -> None:
    library = loader.load()
    assert library is loader.load()
    assert library.build_info()["tensorflow"] == tf.__version__
    assert library.path.name == tensorflows.library_name(tf.__version__)


def test_exports_the_c_interface_only() -> None:
    output = subprocess.run(
        ["nm", "-D", "--defined-only", str(loader.load().path)], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in output.splitlines()}
    assert names == {
        "tfq_set_kept_endpoint", "tfq_set_label", "tfq_set_restoring", "tfq_stop_all", "tfq_resume_all",
        "tfq_build_info", "tfq_delivery_stats", "tfq_leave_after", "tfq_set_epoch", "tfq_waiting",
    }  # fmt: skip


def test_needs_the_framework_library_only() -> None:
    output = subprocess.run(
        ["objdump", "-p", str(loader.load().path)], capture_output=True, text=True, check=True
    ).stdout
    needed = {line.split()[-1].split(".so")[0] for line in output.splitlines() if "NEEDED" in line}
    assert needed <= {"libtensorflow_framework", "libstdc++", "libgcc_s", "libc", "libm", "ld-linux-x86-64"}


def test_core_sees_no_tensorflow() -> None:
    for source in (path for path in (build.OPS / "core").rglob("*") if path.is_file()):
        assert "tensorflow/" not in source.read_text(), source
        assert "absl/" not in source.read_text(), source


def test_what_is_called_is_what_there_is() -> None:
    ops = loader.load()._ops
    for name, given in interface.OPS.items():
        assert set(inspect.signature(getattr(ops, name)).parameters) - {"name"} == given


@pytest.mark.parametrize(
    ("now", "then", "says"),
    [
        (b"parse_defaults", b"parse_standard", "no parse_defaults of quiver_dataset"),
        (b"tfq_set_epoch\0", b"tfq_set_pass_\0", "no function tfq_set_epoch"),
        (b"QuiverOnceDataset", b"QuiverOneeDataset", "no op quiver_once_dataset"),
    ],
)
def test_one_of_other_sources_is_refused_and_said_to_be_built_again(
    now: bytes, then: bytes, says: str, tmp_path: Path
) -> None:
    """As if a name had been another one when it was built."""
    path = loader.load().path
    built = path.read_bytes()
    assert now in built and len(now) == len(then)
    (tmp_path / path.name).write_bytes(built.replace(now, then))
    command = [sys.executable, "-c", USE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and last.startswith("tfquiver.errors.TensorFlowError: "), done.stderr
    assert (
        str(tmp_path / path.name) in last
        and says in last
        and "python -m tfquiver.ops.compiling_and_loading.build" in last
    )
