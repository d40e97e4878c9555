"""The page that is committed is what its sources give; where Node.js and npm are, and its packages can be had."""

from __future__ import annotations

import filecmp
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "tfquiver" / "cli" / "dashboard" / "page"
FILES = ["app.css", "app.js", "index.html", "licenses.txt"]
_LEAST_NODE = 20


def test_the_committed_page_is_built_from_its_sources(tmp_path: Path) -> None:
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("needs Node.js 20 and npm")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().lstrip("v").partition(".")[0]) < _LEAST_NODE:
        pytest.skip(f"Node.js {version.strip()}: vite needs {_LEAST_NODE}")
    web = tmp_path / "web"
    shutil.copytree(ROOT / "web", web, ignore=shutil.ignore_patterns("node_modules"))
    installed = subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=web, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"npm ci: {installed.stderr[-300:]}")
    for script in ("check", "build"):
        command = ["npm", "run", script, *(["--", "--outDir", str(tmp_path / "page")] if script == "build" else [])]
        ran = subprocess.run(command, cwd=web, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert sorted(path.name for path in (tmp_path / "page").iterdir()) == FILES
    different = filecmp.cmpfiles(tmp_path / "page", PAGE, FILES, shallow=False)
    assert different == (FILES, [], []), "npm run build in web/, and commit"


def test_the_page_loads_nothing_from_elsewhere() -> None:
    for name in FILES:
        text = (PAGE / name).read_text()
        for outside in ("//cdn", "https://fonts", 'src="http', "@import"):
            assert outside not in text
    assert sum((PAGE / name).stat().st_size for name in FILES) < 200_000
