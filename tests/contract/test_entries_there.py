"""Entries that are found when a node starts: by the library what Python finds, and what is no entry left to Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfquiver.glob_patterns_and_file_trees import files_under as under
from tfquiver.service.node.disk import entries_there as there
from tfquiver.service.node.disk.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    for number in range(300):
        path = made.path_of(bytes([number % 7, number % 256]) + number.to_bytes(30, "big"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(number * 40))
    return made


def test_the_library_finds_what_python_finds(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = dict(layout.entries())
    assert len(expected) == 300 and set(expected.values()) == {4096, 8192, 12288}
    assert there.entries_there(layout) == expected
    with monkeypatch.context() as without:
        without.setattr(under, "_library", lambda: None)
        assert there.entries_there(layout) == expected
    monkeypatch.delattr(Layout, "entries")
    assert there.entries_there(layout) == expected, "by the library alone"


def test_there_may_be_none(tmp_path: Path) -> None:
    assert there.entries_there(Layout(tmp_path)) == {}


@pytest.mark.parametrize(
    "name",
    ["00/00/README", "00/01/" + "00" * 32, "01/00/" + "00" * 32, "00/00/" + "AA" * 32, "00/00/" + "0g" * 32, "00/x"],
)
def test_what_is_no_entry_is_no_entry(layout: Layout, name: str) -> None:
    expected = dict(layout.entries())
    path = layout.objects / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    assert there.entries_there(layout) == expected


def test_a_link_is_no_entry(layout: Layout) -> None:
    expected = dict(layout.entries())
    directory = layout.objects / "00" / "00"
    (directory / ("00" * 31 + "ff")).symlink_to(directory / "nothing")
    (layout.objects / "aa").symlink_to(layout.objects / "00")
    assert there.entries_there(layout) == expected
