"""Builds the op library against the TensorFlow that is installed where it runs: `python -m tfquiver.ops.build`.

The library is named for TensorFlow's major and minor version, because it uses TensorFlow's C++ interface, which is only
the same within one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

OPS = Path(__file__).resolve().parent
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-DNDEBUG", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-pthread")


def library_name(tensorflow_version: str) -> str:
    """The file name of the library for this version of TensorFlow."""
    major, minor = tensorflow_version.split(".")[:2]
    return f"libtfquiver_tf{major}_{minor}.so"


def sources() -> list[Path]:
    """All C++ sources of the library, tests excluded."""
    found = [*(OPS / "core").glob("*.cc"), *(OPS / "tf").glob("*.cc")]
    return sorted(path for path in found if not path.name.endswith("_test.cc"))


def build(lib_dir: Path | None = None) -> Path:
    """Compiles and links; replaces the library by rename. Returns its path.

    Raises subprocess.CalledProcessError when the compiler fails.
    """
    import tensorflow as tf

    version = tf.__version__
    include = tf.sysconfig.get_include()
    # TensorFlow's headers warn about themselves: -isystem keeps that quiet.
    given = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("--std")]
    compile_flags = [*FLAGS, *(f"-isystem{flag[2:]}" if flag.startswith("-I") else flag for flag in given)]
    # `#include "ops/..."` is found from the folder that holds ops/. Core sources see that and nothing of TensorFlow.
    own = [f"-I{OPS.parent}", f'-DTFQUIVER_TF_VERSION="{version}"']
    core_flags = [*FLAGS, *(flag for flag in compile_flags if flag.startswith("-D_GLIBCXX")), f"-I{OPS.parent}"]
    tf_flags = [*compile_flags, f"-isystem{include}/external/zlib", *own]
    compiler = os.environ.get("CXX", "g++")
    target = (lib_dir or OPS / "lib") / library_name(version)
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent) as scratch:

        def compile_one(source: Path) -> str:
            flags = tf_flags if source.parent.name == "tf" else core_flags
            output = str(Path(scratch) / f"{source.parent.name}_{source.stem}.o")
            subprocess.run([compiler, *flags, "-c", str(source), "-o", output], check=True)
            return output

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = list(pool.map(compile_one, sources()))
        linked = Path(scratch) / target.name
        exports = f"-Wl,--version-script={OPS / 'exports.lds'}"
        link_flags = ["-shared", "-Wl,-Bsymbolic", exports, "-Wl,-z,defs", "-pthread", *tf.sysconfig.get_link_flags()]
        subprocess.run([compiler, "-o", str(linked), *objects, *link_flags], check=True)
        linked.replace(target)
    return target


def main() -> int:
    print(build())
    return 0


if __name__ == "__main__":
    sys.exit(main())
