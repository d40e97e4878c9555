"""Builds the tests of ops/core into one program with a sanitizer. Objects are kept under build/."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SANITIZERS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"],
    "thread": ["-fsanitize=thread"],
}


def build(sanitizer: str) -> Path:
    """The test program with this sanitizer. Raises CalledProcessError when something does not compile."""
    flags = ["-std=c++17", "-g1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", *SANITIZERS[sanitizer]]
    folder = ROOT / "build" / "core-tests" / sanitizer
    folder.mkdir(parents=True, exist_ok=True)
    folders = (ROOT / "ops" / "core", ROOT / "ops" / "testing")
    newest_header = max(header.stat().st_mtime for folder in folders for header in folder.rglob("*.h"))

    def compile_one(source: Path) -> str:
        target = folder / "_".join(source.relative_to(ROOT / "ops").with_suffix(".o").parts)
        if not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime, newest_header):
            # What is tested is slow enough without optimization; of the tests themselves most of the time is compiling.
            level = "-O0" if source.name.endswith("_test.cc") else "-O1"
            subprocess.run(["g++", *flags, level, "-c", str(source), "-o", f"{target}.part"], check=True)
            Path(f"{target}.part").replace(target)
        return str(target)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(compile_one, sorted(source for folder in folders for source in folder.rglob("*.cc"))))
    program = folder / "core_tests"
    subprocess.run(["g++", *flags, "-o", str(program), *objects, "-pthread"], check=True)
    return program


def run(sanitizer: str) -> None:
    """Fails with what the program says."""
    result = subprocess.run([str(build(sanitizer))], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-8000:]
