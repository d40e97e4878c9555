"""What the built library exports and needs, and which one is loaded."""

from __future__ import annotations

import subprocess

import tensorflow as tf

from tfquiver.ops.library import build, loader, tensorflows


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
        "tfq_set_endpoint", "tfq_set_label", "tfq_set_restoring", "tfq_stop_all", "tfq_resume_all", "tfq_build_info",
        "tfq_delivery_stats", "tfq_leave_after", "tfq_set_epoch",
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
