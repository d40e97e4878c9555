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


# What uses each other, in one run of the compiler: most of its work is the standard library's templates, which folders
# that are compiled apart repeat. Every other folder is by itself. A name that two folders of a group have in their
# anonymous namespaces does not compile: it is renamed, or its folder leaves the group.
GROUPS = (
    ("reader_and_its_conversation_with_the_node", "shard_loading", "shuffle_pool_and_order"),
    (
        "element_client_and_server",
        "element_messages_handshake_sockets",
        "example_parsing",
        "node_messages_socket_tickets",
    ),
    ("told_by_python", "bytes_checksums_tfrecords", "record_memory"),
)


@dataclass(frozen=True)
class Unit:
    """What one run of the compiler is given: sources and their tests. That each compiles by itself is seen by Bazel."""

    name: str
    folders: set[Path]
    sources: list[Path]

    def changed_at(self) -> float:
        return max(path.stat().st_mtime for path in (*self.folders, *self.sources))  # a folder: one has gone

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
    """Those that take longest first."""
    grouped = {folder: "_".join(group) for group in GROUPS for folder in group}
    units = dict[str, Unit]()
    for source in sorted(source for folder in folders for source in folder.rglob("*.cc")):
        name = grouped.get(source.parent.name, source.parent.name)
        unit = units.setdefault(name, Unit(name, set(), []))
        unit.folders.add(source.parent)
        unit.sources.append(source)
    return sorted(units.values(), key=lambda unit: -len(unit.sources))


def run(sanitizer: str) -> None:
    """Fails with what the program says."""
    result = subprocess.run([str(build(sanitizer))], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-8000:]
