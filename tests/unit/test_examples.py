"""A factor for all Hypothesis examples reaches plain tests and state machines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

plain, few, machine = [], [], []

@given(st.floats())
def test_plain(x):
    plain.append(x)

@given(st.floats())
@settings(max_examples=7)
def test_few(x):
    few.append(x)

class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        machine.append(1)

    @rule()
    def nothing(self):
        pass

TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=5)

def test_counts():
    assert (len(plain), len(few)) == EXPECTED
    assert len(machine) > 10 or EXPECTED[0] < 100
"""


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "expected"), [("3", (300, 21)), ("0.3", (30, 5))])
def test_all_get_as_many_times_their_own(tmp_path: Path, factor: str, expected: tuple[int, int]) -> None:
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    (folder / "test_probe.py").write_text(f"EXPECTED = {expected}\n{PROBE}")
    (tmp_path / "tests" / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    # A temporary directory of its own: else it spends minutes on deleting what earlier runs have left.
    env = {
        **os.environ,
        "TFQUIVER_TEST_EXAMPLES": factor,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DEBUG_TEMPROOT": str(tmp_path),
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "4 passed" in done.stdout
