"""Puts the op into the package; everything else about the package is in pyproject.toml.

With TFQUIVER_OP_LIBRARIES=DIR: the libraries in DIR, which
`python -m tfquiver.ops.compiling_and_loading.build` made (.ci/package).
Without it, where TensorFlow can be imported (`--no-build-isolation`): compiled for that. Else none: the op is compiled
where it is first used (ops/compiling_and_loading/own_build.py).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
BROUGHT = os.environ.get("TFQUIVER_OP_LIBRARIES", "")
WITH_OP = bool(BROUGHT) or importlib.util.find_spec("tensorflow") is not None


class BuildOp(build_ext):
    """Copies or compiles the libraries."""

    def run(self) -> None:
        lib = ROOT / "ops" / "lib" if self.inplace else Path(self.build_lib) / "tfquiver" / "ops" / "lib"
        if not BROUGHT:
            sys.path.insert(0, str(ROOT))
            from tfquiver.ops.compiling_and_loading import build, tensorflows

            build.build([tensorflows.installed()], lib, reader=True)
            return
        libraries = sorted(Path(BROUGHT).glob("libtfquiver_*.so"))
        if not any(path.name.startswith("libtfquiver_tf") for path in libraries):
            raise SystemExit(f"TFQUIVER_OP_LIBRARIES={BROUGHT}: no libtfquiver_tf*.so there")
        lib.mkdir(parents=True, exist_ok=True)
        for library in libraries:
            shutil.copy(library, lib)

    def get_outputs(self) -> list[str]:
        lib = Path(self.build_lib) / "tfquiver" / "ops" / "lib"
        return [str(path) for path in lib.glob("*.so")]

    def get_source_files(self) -> list[str]:
        found = [
            path
            for half in ("core", "tf", "tf_data_transfer_plugin", "reader_library_without_tensorflow")
            for path in (ROOT / "ops" / half).rglob("*.[hc]*")
        ]
        return [str(path.relative_to(ROOT)) for path in [*found, ROOT / "ops" / "exports.lds"]]


class Wheel(bdist_wheel):
    """The op is no extension of Python: its wheel serves every version."""

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform = super().get_tag()
        return "py3", "none", platform


# The extension stands for the libraries: it makes the wheel a platform wheel. BuildOp does the building.
EXTENSIONS = [Extension("tfquiver.ops.lib.op", sources=[])] if WITH_OP else []
setup(ext_modules=EXTENSIONS, cmdclass={"build_ext": BuildOp, "bdist_wheel": Wheel})
