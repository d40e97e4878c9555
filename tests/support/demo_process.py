"""`tfquiver demo --quick` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def start(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "tfquiver.cli.main", "demo", "--quick", f"--png={tmp_path / 'demo.png'}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch), "COLUMNS": "80"},
    ) as demo:
        try:
            yield demo
        finally:
            demo.kill()  # a test that failed must not wait for it


def read_until(demo: subprocess.Popen[str], text: str) -> None:
    assert demo.stdout is not None
    said = []
    for line in demo.stdout:
        said.append(line)
        if text in line:
            return
    pytest.fail(f"the demo never said {text!r}:\n{''.join(said)}")
