"""What a library is named for, and what is found in an unpacked wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tfquiver.ops.compiling_and_loading import tensorflows


@pytest.mark.parametrize(("version", "name"), [
    ("2.21.0", "libtfquiver_tf2_21.so"),
    ("2.18.1", "libtfquiver_tf2_18.so"),
    ("2.22.0-dev20260105", "libtfquiver_tf2_22_0_dev20260105.so"),
    ("2.21.0-rc1", "libtfquiver_tf2_21_0_rc1.so"),
    ("2.21.0+cuda13.x/../y", "libtfquiver_tf2_21_0_cuda13_x_y.so"),
])  # fmt: skip
def test_only_releases_share_a_library(version: str, name: str) -> None:
    assert tensorflows.library_name(version) == name


def wheel(folder: Path, dist: str, version: str) -> None:
    (folder / "tensorflow").mkdir(parents=True, exist_ok=True)
    (folder / "tensorflow" / "libtensorflow_framework.so.2").touch()
    (folder / f"{dist}-{version}.dist-info").mkdir()
    about = f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n\nVersion: of the description"
    (folder / f"{dist}-{version}.dist-info" / "METADATA").write_text(about)


@pytest.mark.parametrize("dist", ["tensorflow", "tensorflow_cpu", "tf_nightly", "tensorflow_rocm"])
def test_unpacked(tmp_path: Path, dist: str) -> None:
    wheel(tmp_path, dist, "2.19.1")
    wheel(tmp_path, "tensorflow_io_gcs_filesystem", "0.37.1")
    found = tensorflows.unpacked(tmp_path)
    assert found.version == "2.19.1"
    assert f"-I{tmp_path}/tensorflow/include" in found.compile_flags and f"-L{tmp_path}/tensorflow" in found.link_flags


def test_which_of_two_is_not_guessed(tmp_path: Path) -> None:
    wheel(tmp_path, "tensorflow", "2.19.1")
    wheel(tmp_path, "tensorflow_cpu", "2.20.0")
    with pytest.raises(FileNotFoundError, match="not one unpacked wheel"):
        tensorflows.unpacked(tmp_path)
    with pytest.raises(FileNotFoundError, match="not one unpacked wheel"):
        tensorflows.unpacked(tmp_path / "nothing")


def test_without_tensorflow_the_error_says_how_to_get_it() -> None:
    code = """
import sys
sys.modules["tensorflow"] = None  # as good as not installed
try:
    from tfquiver.ops.compiling_and_loading import loader
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("TensorFlowError tfquiver needs TensorFlow here, and there is none: pip install ")
    assert "pip install '.[tensorflow]' in a clone" in done.stdout and "2.18 to 2.21" in done.stdout
