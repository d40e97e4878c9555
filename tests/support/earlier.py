"""An earlier commit of this project, unpacked, and its servers as processes: for tests of two versions that meet."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_GIT_S = 60.0


def unpacked(commit: str, folder: Path) -> Path:
    """`folder` with the files of that commit. Skips the test where this is no clone, or one without that history."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone: an earlier commit is run")
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit]
    done = subprocess.run(command, capture_output=True, timeout=_GIT_S)
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip()
        pytest.skip(f"needs commit {commit[:12]}, which this clone does not have (`git fetch --unshallow`): {why}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def environment(folder: Path) -> dict[str, str]:
    """For a process that is to import the package of that folder, wherever it is started."""
    return {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}
