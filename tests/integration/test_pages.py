"""The pages for users do what they say: their marked code is run, their output compared (tests/support/pages.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import pages

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if pages.RUN.search(path.read_text())
]


def test_there_are_pages() -> None:
    assert "README.md" in {path.name for path in PAGES}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_does_what_it_says(tmp_path: Path, path: Path) -> None:
    for module in pages.NEEDS.findall(path.read_text()):
        if find_spec(module) is None:
            pytest.skip(f"{path.name} needs {module}, which is not installed: pip install 'tfquiver[{module}]'")
    home = tmp_path / "home"
    home.mkdir()
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "GOOGLE_", "TFQUIVER_SERVICE"))
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.pages", str(path)],
            cwd=home,
            env={
                **inherited,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "COLUMNS": "200",
                "HOME": str(home),
                "TMPDIR": str(tmp_path),
                "CUDA_VISIBLE_DEVICES": "-1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout[-8000:]
    finally:
        for node in home.rglob("node.json"):
            command = [sys.executable, "-m", "tfquiver.cli.main", "stop", str(node.parent), "--force"]
            subprocess.run(command, check=True)
