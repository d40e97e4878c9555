"""The pages for users do what they say: their code is run, their output compared (tests/support/page_blocks.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import page_blocks, warm
from tests.support.cluster import die_with_parent, tensorflow_env
from tests.support.privileges import cannot_mount_fuse

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page_blocks.RUN.search(path.read_text())
]
_PAGE_S = 500.0  # some start twenty processes, one after the other


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of all pages that want one; where it is, for their environment."""
    directory = tmp_path_factory.mktemp("cluster")
    command = [sys.executable, "-m", "tfquiver.cli.main", "up", str(directory), "--workers=1", "--quota=200MB"]
    with subprocess.Popen(
        [*command, "--port=0", "--dispatcher_port=0", "--node_flag=--labels=rack=r0", "--json"],
        stdout=subprocess.PIPE, env=tensorflow_env(), preexec_fn=die_with_parent,
    ) as up:  # fmt: skip
        try:
            assert up.stdout is not None
            ready = next(json.loads(line) for line in up.stdout if line.startswith(b'{"server"'))
            yield {"HEAD": ready["coordinator"], "DISPATCHER": ready["dispatcher"], "CLUSTER": str(directory)}
        finally:
            up.terminate()


def environment(home: Path, temporary: Path) -> dict[str, str]:
    """Of a page's process: nothing of who runs the tests."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "GOOGLE_", "TFQUIVER_SERVICE"))
    }
    return {
        **inherited,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "CUDA_VISIBLE_DEVICES": "-1",
    }


def test_there_are_pages() -> None:
    assert "README.md" in {path.name for path in PAGES}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_does_what_it_says(tmp_path: Path, path: Path, cluster: dict[str, str]) -> None:
    needed = page_blocks.NEEDS.findall(path.read_text())
    for module in needed:
        if find_spec(module) is None:
            pytest.skip(f"{path.name} needs {module}, which is not installed: pip install '.[{module}]'")
    if "pyfuse3" in needed and (why_not := cannot_mount_fuse()):
        pytest.skip(why_not)
    beside = cluster if page_blocks.CLUSTER.search(path.read_text()) else {}
    home = tmp_path / "home"
    home.mkdir()
    try:
        done = warm.run(
            [sys.executable, "-m", "tests.support.pages", str(path)], stdin=subprocess.DEVNULL,
            warm_kind="plain" if "torch" in needed else "keras",  # which crashes beside PyTorch
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=_PAGE_S, cwd=home,
            env=environment(home, tmp_path) | beside,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-8000:]
    finally:
        for node in home.rglob("node.json"):
            command = [sys.executable, "-m", "tfquiver.cli.main", "stop", str(node.parent), "--force"]
            subprocess.run(command, check=True)
