"""Builds the tests of ops/core into one program with a sanitizer. Objects are kept under build/."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SANITIZERS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"],
    "thread": ["-fsanitize=thread"],
}


@dataclass(frozen=True)
class Unit:
    """What one run of the compiler is given: a folder's sources, or its tests. Each by itself would take half as long
    again; that each compiles by itself is seen by Bazel."""

    folder: Path
    tests: bool
    sources: tuple[Path, ...]

    @property
    def name(self) -> str:
        return "_".join((*self.folder.relative_to(ROOT / "ops").parts, "tests" if self.tests else "sources"))

    def changed_at(self) -> float:
        return max(path.stat().st_mtime for path in (self.folder, *self.sources))  # the folder: one has gone

    def text(self) -> str:
        return "".join(f'#include "{source.relative_to(ROOT)}"\n' for source in self.sources)


def build(sanitizer: str) -> Path:
    """The test program with this sanitizer. Raises CalledProcessError when something does not compile."""
    # Without optimization: most of what these tests take is compiling.
    flags = ["-std=c++17", "-O0", "-g1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", *SANITIZERS[sanitizer]]
    folder = ROOT / "build" / "core-tests" / sanitizer
    folder.mkdir(parents=True, exist_ok=True)
    folders = (ROOT / "ops" / "core", ROOT / "ops" / "testing")
    newest_header = max(header.stat().st_mtime for folder in folders for header in folder.rglob("*.h"))

    def compile_one(unit: Unit) -> str:
        target = folder / f"{unit.name}.o"
        if not target.exists() or target.stat().st_mtime < max(newest_header, unit.changed_at()):
            command = ["g++", *flags, "-x", "c++", "-c", "-", "-o", f"{target}.part"]
            subprocess.run(command, input=unit.text(), text=True, check=True)
            Path(f"{target}.part").replace(target)
        return str(target)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(compile_one, _units(folders)))
    program = folder / "core_tests"
    subprocess.run(["g++", *flags, "-o", str(program), *objects, "-pthread"], check=True)
    return program


def _units(folders: Iterable[Path]) -> list[Unit]:
    found = dict[tuple[Path, bool], list[Path]]()
    for source in sorted(source for folder in folders for source in folder.rglob("*.cc")):
        found.setdefault((source.parent, source.name.endswith("_test.cc")), []).append(source)
    return [Unit(folder, tests, tuple(sources)) for (folder, tests), sources in found.items()]


def run(sanitizer: str) -> None:
    """Fails with what the program says."""
    result = subprocess.run([str(build(sanitizer))], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-8000:]
