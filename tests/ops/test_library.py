"""What the built library exports and needs, and which one is loaded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import tensorflow as tf

from tfquiver.ops import build, loader


def test_loads_for_this_tensorflow() -> None:
    library = loader.load()
    assert library is loader.load()
    assert library.build_info()["tensorflow"] == tf.__version__
    assert library.path.name == build.library_name(tf.__version__)


def test_exports_the_c_interface_only() -> None:
    output = subprocess.run(
        ["nm", "-D", "--defined-only", str(loader.load().path)], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in output.splitlines()}
    assert names == {
        "tfq_set_endpoint", "tfq_set_label", "tfq_set_restoring", "tfq_stop_all", "tfq_resume_all", "tfq_build_info",
        "tfq_delivery_stats", "tfq_leave_after",
    }  # fmt: skip


def test_needs_the_framework_library_only() -> None:
    output = subprocess.run(
        ["objdump", "-p", str(loader.load().path)], capture_output=True, text=True, check=True
    ).stdout
    needed = {line.split()[-1].split(".so")[0] for line in output.splitlines() if "NEEDED" in line}
    assert needed <= {"libtensorflow_framework", "libstdc++", "libgcc_s", "libc", "libm", "ld-linux-x86-64"}


def test_core_sees_no_tensorflow() -> None:
    for source in (build.OPS / "core").iterdir():
        assert "tensorflow/" not in source.read_text(), source
        assert "absl/" not in source.read_text(), source


@pytest.mark.parametrize(("version", "built", "message"), [
    ("2.99.0", [], "built: none"),
    ("2.99.0", ["libtfquiver_tf2_21.so", "libtfquiver_tf2_20.so"], "built: libtfquiver_tf2_20.so, libtfquiver_tf2_21"),
])  # fmt: skip
def test_another_tensorflow(tmp_path: Path, version: str, built: list[str], message: str) -> None:
    for name in built:
        (tmp_path / name).touch()
    with pytest.raises(ImportError, match=message) as caught:
        loader.library_path(version, tmp_path)
    text = str(caught.value)
    assert "TensorFlow 2.99.0" in text and "libtfquiver_tf2_99.so" in text
    assert "python -m tfquiver.ops.build" in text and str(tmp_path) in text


def test_a_file_that_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / build.library_name(tf.__version__)).write_text("not a library")
    monkeypatch.setattr(loader, "library_path", lambda _: tmp_path / build.library_name(tf.__version__))
    with pytest.raises(ImportError, match=r"cannot load .*python -m tfquiver\.ops\.build"):
        loader.load.__wrapped__()
