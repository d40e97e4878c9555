"""A test that ends its process fails, once; every other one is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
from tests.support.by_file import ByFile

def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)
"""
ENDS = """
import os, time

def test_before(): pass

def test_ends():
    time.sleep(0.5)  # the other process has come to its end
    os._exit(1)

def test_behind(): pass
"""


@pytest.mark.slow
@pytest.mark.long
def test_a_process_that_ends_when_the_others_leave_is_one_failure(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_a.py").write_text("def test_first(): pass\n")
    (tmp_path / "test_b.py").write_text("def test_second(): pass\n")
    (tmp_path / "test_c.py").write_text(ENDS)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile"]
    command += ["--no-loadscope-reorder", "-c", str(root / "pyproject.toml"), str(tmp_path)]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    own["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path)  # else it spends minutes on deleting what earlier runs have left
    told = subprocess.run(command, cwd=root, env=own, capture_output=True, text=True, timeout=120).stdout
    assert "test_c.py::test_ends" in told
    assert "1 failed, 4 passed" in told
