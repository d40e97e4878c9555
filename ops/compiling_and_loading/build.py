"""Compiles the op library: `python -m tfquiver.ops.compiling_and_loading.build`, against the TensorFlow that is
installed where it runs; the transport library, for the TensorFlow that has its plug; and the reader library, which
needs none.

In a source tree the libraries go to ops/lib, where the loaders look first; of an installed package, to the user's cache
directory (own_build.py). `--tensorflow` and `--lib_dir` make the libraries of a release.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tfquiver.ops.compiling_and_loading import tensorflows
from tfquiver.ops.compiling_and_loading.reader_library import READER as READER
from tfquiver.ops.compiling_and_loading.tensorflows import TensorFlow

OPS = Path(__file__).resolve().parents[1]
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-DNDEBUG", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-pthread")
_DEADLINE_S = 1200.0  # of one file, on a slow and busy machine
_MOST_LINES = 12  # of what a compiler says


class BuildError(RuntimeError):
    """There is no compiler, or it fails; says which, with its first errors."""


def sources(half: str) -> list[Path]:
    """The C++ sources of one part, "core", "tf", "tf_data_transfer_plugin" or "reader_library_without_tensorflow",
    tests excluded."""
    return sorted(path for path in (OPS / half).rglob("*.cc") if not path.name.endswith("_test.cc"))


def _units(half: str, scratch: Path) -> list[Path]:
    """What is compiled: for each of `_groups` a file that includes its sources.

    Most of compiling them is reading headers, which is so done once for all of them. (Bazel has the core's one by one.)
    """
    units = []
    for name, group in _groups(half).items():
        unit = scratch / f"{name}.cc"
        unit.write_text("".join(f'#include "ops/{source.relative_to(OPS)}"\n' for source in group))
        units.append(unit)
    return units


def _groups(half: str) -> dict[str, list[Path]]:
    """The sources of a part, by folder; those that include TensorFlow's headers, which take longest, are one group."""
    found: dict[str, list[Path]] = {}
    for source in sources(half):
        folder = source.parent.relative_to(OPS)
        found.setdefault(half if half.startswith("tf") else "_".join(folder.parts), []).append(source)
    return found


def compiler() -> list[str]:
    """The command of the compiler: CXX, which may be several words, else g++. Raises BuildError."""
    try:
        return shlex.split(os.environ.get("CXX", "")) or ["g++"]
    except ValueError as error:
        raise BuildError(f"CXX={os.environ['CXX']!r} is no command: {error}") from error


def build(targets: Sequence[TensorFlow], lib_dir: Path, reader: bool = False) -> list[Path]:
    """Compiles and links a library for each, and the transport library where it has one; replaces libraries by rename.
    Returns their paths, the op's first.

    The core sees nothing of TensorFlow and is compiled once for all.

    Args:
      reader: also the reader library, which comes last.

    Raises BuildError, and OSError where `lib_dir` cannot be written.
    """
    lib_dir.mkdir(parents=True, exist_ok=True)
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    started: dict[tuple[str, ...], list[Future[str]]] = {}
    with TemporaryDirectory(dir=lib_dir) as scratch:

        def objects(half: str, flags: tuple[str, ...]) -> list[Future[str]]:
            if (key := (half, *flags)) not in started:
                folder = Path(scratch) / str(len(started))
                folder.mkdir()
                started[key] = [
                    pool.submit(_compile, unit, flags, folder / f"{number}.o")
                    for number, unit in enumerate(_units(half, folder))
                ]
            return started[key]

        def transport(target: TensorFlow) -> list[Future[str]]:
            has_one = tensorflows.transport_name(target.version)
            return objects("tf_data_transfer_plugin", _tf_flags(target)) if has_one else []

        try:
            # The largest first: the others fill the processors beside them.
            halves = [
                (objects("tf", _tf_flags(target)), transport(target), objects("core", _core_flags(target)), target)
                for target in targets
            ]
            plain = (
                objects("core", _CORE_FLAGS) + objects("reader_library_without_tensorflow", _CORE_FLAGS)
                if reader
                else []
            )
            # The op's last: where it is nobody builds any more, also when this is killed in between.
            beside = [
                _link(
                    _transport_core(core) + parts, tensorflows.transport_name(target.version), _with_cc(target),
                    Path(scratch), lib_dir,
                )
                for _tf, parts, core, target in halves
                if parts
            ]  # fmt: skip
            beside += [_link(plain, READER, (), Path(scratch), lib_dir)] if reader else []
            linked = [
                _link(core + tf, tensorflows.library_name(target.version), target.link_flags, Path(scratch), lib_dir)
                for tf, _transport, core, target in halves
            ]
            return [*linked, *beside]
        finally:
            pool.shutdown(cancel_futures=True)


# `#include "ops/..."` is found from the folder that holds ops/. The ABI is that of all TensorFlows since 2.16.
_CORE_FLAGS = (*FLAGS, "-D_GLIBCXX_USE_CXX11_ABI=1", f"-I{OPS.parent}")


def _core_flags(target: TensorFlow) -> tuple[str, ...]:
    abi = (flag for flag in target.compile_flags if flag.startswith("-D_GLIBCXX"))
    return (*FLAGS, *abi, f"-I{OPS.parent}")


def _tf_flags(target: TensorFlow) -> tuple[str, ...]:
    given = [flag for flag in target.compile_flags if not flag.startswith("--std")]
    includes = [flag[2:] for flag in given if flag.startswith("-I")]
    # TensorFlow's headers warn about themselves: -isystem keeps that quiet.
    quiet = [f"-isystem{folder}" for include in includes for folder in (include, f"{include}/external/zlib")]
    defines = [flag for flag in given if not flag.startswith("-I")]
    if tensorflows.has_known_tuner(target.version):
        defines.append("-DTFQUIVER_TF_TUNER")
    return (*FLAGS, *defines, *quiet, f"-I{OPS.parent}", f'-DTFQUIVER_TF_VERSION="{target.version}"')


def _transport_core(core: list[Future[str]]) -> list[Future[str]]:
    """Of the core's objects, those that the transport needs."""
    needed = {
        f"core_{name}"
        for name in (
            "bytes_checksums_tfrecords",
            "node_messages_socket_tickets",
            "element_messages_handshake_sockets",
            "element_client_and_server",
        )
    }
    return [compiled for compiled, name in zip(core, _groups("core"), strict=True) if name in needed]


def _with_cc(target: TensorFlow) -> tuple[str, ...]:
    return (*target.link_flags, "-l:libtensorflow_cc.so.2")


def _compile(unit: Path, flags: tuple[str, ...], object_: Path) -> str:
    _run([*compiler(), *flags, "-c", str(unit), "-o", str(object_)])
    return str(object_)


def _link(objects: list[Future[str]], name: str, link_flags: Sequence[str], scratch: Path, lib_dir: Path) -> Path:
    path = lib_dir / name
    exports = f"-Wl,--version-script={OPS / 'exports.lds'}"
    flags = ["-shared", "-Wl,-Bsymbolic", exports, "-Wl,-z,defs", "-pthread", *link_flags]
    _run([*compiler(), "-o", str(scratch / name), *(object_.result() for object_ in objects), *flags])
    with (scratch / name).open("rb") as made:
        os.fsync(made.fileno())  # else a power cut may leave the name without all of what it names
    (scratch / name).replace(path)
    return path


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", timeout=_DEADLINE_S
        )
    except FileNotFoundError as error:
        raise BuildError(
            f"no C++ compiler {command[0]!r} here: apt-get install g++, or dnf install gcc-c++, or say which in CXX"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]}: {error}") from error
    if done.returncode:
        lines = done.stderr.splitlines()
        wrong = [line for line in lines if "error" in line] or lines
        said = [f"{shlex.join(command[:2])} ... fails with exit code {done.returncode}:", *wrong[:_MOST_LINES]]
        raise BuildError("\n  ".join(said))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tfquiver.ops.compiling_and_loading.build", description="Compiles tfquiver's op."
    )
    parser.add_argument(
        "--tensorflow", type=Path, action="append", metavar="FOLDER",
        help="a folder with an unpacked wheel of TensorFlow, may be given several times; left out: the installed one",
    )  # fmt: skip
    parser.add_argument("--lib_dir", type=Path, help="where the libraries go")
    parser.add_argument("--reader", action="store_true", help="the reader library alone, which needs no TensorFlow")
    parser.add_argument(
        "--anew", action="store_true", help="compiles also what is there already, made of these sources"
    )
    arguments = parser.parse_args()
    try:
        if arguments.reader:
            targets = []
        elif arguments.tensorflow:
            targets = [tensorflows.unpacked(folder) for folder in arguments.tensorflow]
        else:
            targets = [tensorflows.installed()]
        in_tree = (OPS.parent / "pyproject.toml").is_file()
        if arguments.lib_dir or in_tree:
            paths = build(targets, arguments.lib_dir or OPS / "lib", reader=True)
        else:
            from tfquiver.ops.compiling_and_loading import own_build

            paths = own_build.libraries(targets, arguments.anew)
    except (BuildError, OSError, ImportError) as error:
        print(f"tfquiver.ops.compiling_and_loading.build: {error}", file=sys.stderr)
        return 1
    print("\n".join(map(str, paths)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
