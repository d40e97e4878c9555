"""Builds the op library into the package; everything else about the package is in pyproject.toml."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


class BuildOp(build_ext):
    """Compiles ops/ with the compiler flags of the TensorFlow in the build environment."""

    def run(self) -> None:
        spec = importlib.util.spec_from_file_location("tfquiver_ops_build", ROOT / "ops" / "build.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        in_place = ROOT / "ops" / "lib"
        module.build(in_place if self.inplace else Path(self.build_lib) / "tfquiver" / "ops" / "lib")

    def get_outputs(self) -> list[str]:
        lib = Path(self.build_lib) / "tfquiver" / "ops" / "lib"
        return [str(path) for path in lib.glob("*.so")]

    def get_source_files(self) -> list[str]:
        folders = (ROOT / "ops" / "core", ROOT / "ops" / "tf")
        found = [path for folder in folders for path in (*folder.glob("*.h"), *folder.glob("*.cc"))]
        return [str(path.relative_to(ROOT)) for path in [*found, ROOT / "ops" / "exports.lds"]]


# The extension stands for the library: it makes the wheel a platform wheel. BuildOp does the building.
setup(ext_modules=[Extension("tfquiver.ops.lib.op", sources=[])], cmdclass={"build_ext": BuildOp})
