"""Every link of a page leads to a page and heading that are there; docs/architecture.md has a row for each folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md"]
PAGES += sorted(page for top in ("docs", "ops", "configs", "web") for page in (ROOT / top).rglob("*.md"))
PAGES = [page for page in PAGES if "node_modules" not in page.parts]
CODE = [ROOT / "tfquiver", ROOT / "service", ROOT / "ops"]
TENSORFLOWS = {"core/data/service/data_transfer.h"}
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.+)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def _dead_links(page: Path) -> list[str]:
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if re.match(r"https?:|mailto:", link):  # pages that only `make docs` makes are not there for who reads this
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert _dead_links(page) == []


@pytest.fixture(scope="module")
def ends() -> set[str]:
    """Of the paths of all files, from each folder on."""
    tops = [*CODE, *(ROOT / name for name in ("tests", "configs", "web", ".ci", "docs"))]
    found = [path for top in tops for path in top.rglob("*.*") if "node_modules" not in path.parts]
    whole = {path.relative_to(ROOT).parts for path in found}
    return {"/".join(parts[at:]) for parts in whole for at in range(len(parts))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_code_that_a_page_names_are_there(page: Path, ends: set[str]) -> None:
    """With the end of their path, as folders come and go; what has changed names files of its time."""
    named = set(re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|cc|h|proto|ya?ml|flags))`", page.read_text()))
    if page.name != "CHANGELOG.md":
        assert sorted(named - ends - TENSORFLOWS) == []


def test_each_folder_has_a_row_or_is_named_in_its_parents() -> None:
    named = {part for name in re.findall(r"`([\w./]+)`", ARCHITECTURE) for part in name.split("/")}
    folders = {path.parent for top in CODE for ending in ("*.py", "*.cc") for path in top.rglob(ending)}
    below = {folder for folder in folders if folder not in CODE and "proto" not in folder.parts}
    assert sorted(str(folder.relative_to(ROOT)) for folder in below if folder.name not in named) == []


def test_each_folder_of_a_row_is_there() -> None:
    missing, above = [], {"": ROOT}
    for cell in re.findall(r"^\| (`(?:tfquiver|service|ops|\.\.\.)[^|]*)\|", ARCHITECTURE, re.MULTILINE):
        for name in re.findall(r"`([\w./]+)`", cell):
            if name.startswith(".../"):
                found = any((folder / name[4:]).is_dir() for folder in above.values())
            else:
                found = (ROOT / name).is_dir()
                above = {str(folder): folder for folder in ((ROOT / name), (ROOT / name).parent)}
            if not found:
                missing.append(name)
    assert missing == []


def test_nobody_is_sent_to_pypi() -> None:
    """As long as tfquiver is not there."""
    assert "not on PyPI yet" in (ROOT / "README.md").read_text()
    pages = (page for page in PAGES if page.name != "CHANGELOG.md" and "decisions" not in page.parts)
    texts = [*pages, *(path for top in CODE for path in top.rglob("*.py"))]
    sends = re.compile(r"pip install\s+'?tfquiver\b(?!/)")
    assert [str(path.relative_to(ROOT)) for path in texts if sends.search(path.read_text())] == []
