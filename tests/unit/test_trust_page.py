"""docs/trust.md: every line that names a test names one that there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.findall(r"`(\w+/\w+\.py)::(\w+)`", (ROOT / "docs" / "trust.md").read_text())


def test_there_are_some() -> None:
    assert len(NAMED) > 25


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED)))
def test_it_is_there(file: str, name: str) -> None:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
