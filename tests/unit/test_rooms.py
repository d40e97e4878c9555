"""The tree can be read: folders say what they are for, nothing is too large, and no imports run in a circle."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 400
MOST_FILES = 12


def _sources() -> list[Path]:
    found = [path for top in ("service", "tfquiver") for path in sorted((ROOT / top).rglob("*.py"))]
    links = [path for path in (ROOT / "tfquiver").iterdir() if path.is_symlink()]
    return [path for path in found if "_pb2" not in path.name and not any(link in path.parents for link in links)]


SOURCES = _sources()
FOLDERS = sorted({path.parent for path in SOURCES if "proto" not in path.parts})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_says_who_calls_it_and_what_it_must_never_do(folder: Path) -> None:
    words = " ".join((ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "").split())
    if folder != ROOT / "tfquiver":  # the user's page
        assert "Called " in words
        assert any(word in words for word in ("ever ", "othing may"))


def test_no_folder_holds_more_than_can_be_looked_over() -> None:
    files = Counter(str(path.parent.relative_to(ROOT)) for path in SOURCES if path.name != "__init__.py")
    assert not {folder: count for folder, count in files.items() if count > MOST_FILES}


def test_no_file_is_too_long_to_be_one_idea() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert len(lines) > 200, "the sources were found"
    assert not {path: count for path, count in lines.items() if count > MOST_LINES}


def test_no_imports_run_in_a_circle() -> None:
    """Late ones, within functions, included: they only hide one."""
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("tfquiver", exclude_type_checking_imports=True, cache_dir=None)
    modules = [module for module in graph.modules if not module.startswith("tfquiver.ops")]
    left = {module: set(graph.find_modules_directly_imported_by(module)) for module in modules}
    while free := [module for module, imported in left.items() if not imported & left.keys()]:
        for module in free:
            del left[module]
    assert not left, "these import one another, or what does"


def test_no_two_files_of_tests_have_one_name() -> None:
    """pytest imports them by it alone, and would collect neither."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(names) > 200, "the tests were found"
    assert not {name: count for name, count in names.items() if count > 1}
