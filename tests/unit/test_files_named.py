"""A list of names is to the reader library what it is to Python; what is unusual, Python has listed all the time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.glob_patterns_and_file_trees import files_under as under
from tfquiver.listing import listing
from tfquiver.listing.listed_files import ListedFiles
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.stores import local

NAMES = ("a/x", "a/y.rec", "a-b/x", "ä/€", "a/x.pack.json", "z", "a/link")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    for name in NAMES:
        (root / name).parent.mkdir(exist_ok=True)
        if name != "a/link":
            (root / name).write_bytes(name.encode())
    (root / "a" / "link").symlink_to(root / "z")
    (root / "to nothing").symlink_to(root / "nothing")
    return root


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[str]], Sequence[FileEntry]]:
    def listed(names: Sequence[str]) -> Sequence[FileEntry]:
        with monkeypatch.context() as patched:
            patched.setattr(under, "_library", lambda: None)
            return listing.expand(names)

    return listed


@pytest.mark.parametrize(
    "names",
    [
        ["{}/a/x", "{}/z"],
        ["{}/z", "{}/a/x", "{}/a-b/x"],  # as sorted by URI `a-b/` stands before `a/`
        ["{}/z", "{}/a/x", "{}//z", "{}/./a/./x"],
        ["{}/ä/€", "{}/a/link", "{}/a/x.pack.json"],
        ["z", "a/x", "./a/y.rec", "{}/z"],
    ],
)
def test_a_list_is_what_python_lists(
    tree: Path, names: list[str], in_python: Callable[[Sequence[str]], Sequence[FileEntry]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tree)
    named = [name.format(tree) for name in names]
    files = listing.expand(named, of_records=True)
    assert isinstance(files, ListedFiles), "it is usual"
    expected = in_python(named)
    assert list(files) == expected and len(files) == len(expected)
    assert listing.listing_key(files, CutPolicy()) == listing.listing_key(expected, CutPolicy())


@given(names=st.lists(st.sampled_from(NAMES), min_size=2))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_in_any_order_and_more_than_once(
    tree: Path, names: list[str], in_python: Callable[[Sequence[str]], Sequence[FileEntry]]
) -> None:
    named = [f"{tree}/{name}" for name in names]
    assert list(listing.expand(named)) == in_python(named)


@pytest.mark.parametrize("name", ["*", "a[b", "a/../z", "z/.", "~/z", "z\0", ""])
def test_what_is_unusual_is_left_to_python(tree: Path, name: str) -> None:
    names = [f"{tree}/z", f"{tree}/{name}" if name and name[0] != "~" else name]
    assert local.LocalStore().list_names_at_once(names, in_order=False) is None


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nothing", errors.NotFoundError), ("to nothing", errors.NotFoundError), ("a", errors.InvalidArgumentError),
        ("\udcff", errors.NotFoundError), ("x\0", errors.InvalidArgumentError),
    ],
)  # fmt: skip
def test_what_is_wrong_python_says(tree: Path, name: str, error: type[Exception]) -> None:
    for others in (["z"], []):
        with pytest.raises(error):
            listing.expand([f"{tree}/a/x", f"{tree}/{name}", *(f"{tree}/{other}" for other in others)])


def test_paths_are_names(tree: Path) -> None:
    assert isinstance(listing.expand([tree / "z", f"{tree}/a/x"]), ListedFiles)
    with pytest.raises(TypeError):
        listing.expand([os.fsencode(tree / "z"), os.fsencode(tree / "a" / "x")])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        listing.expand([f"{tree}/z", os.fsencode(tree / "a" / "x")])  # type: ignore[list-item]


def test_an_order_that_is_relied_on_is_that_of_the_names(tree: Path) -> None:
    sorted_names = [f"{tree}/a-b/x", f"{tree}/a/x", f"{tree}/z"]
    assert isinstance(listing.expand(sorted_names, in_order=True), ListedFiles)
    for names in (sorted_names[::-1], [*sorted_names, sorted_names[-1]]):
        with pytest.raises(errors.InvalidArgumentError, match='order="files" reads each file once'):
            listing.expand(names, in_order=True)


def test_a_list_over_two_file_systems_is_left_to_python(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one hangs, whoever lists says so of that one."""
    monkeypatch.setattr(local.MOUNTS, "of", lambda path: str(Path(path).parent))
    names = [f"{tree}/a/x", f"{tree}/z"]
    assert local.LocalStore().list_names_at_once(names, in_order=False) is None
    assert local.LocalStore().list_names_at_once(names[:1] * 2, in_order=False) is not None
    assert len(listing.expand(names)) == 2


def test_many_names_take_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [tmp_path / f"{number % 3}" / f"{number:04d}" for number in range(5000)]
    for number in range(3):
        (tmp_path / f"{number}").mkdir()
    for name in names:
        name.touch()
    started, start = list[str](), threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    def looks(path: object, **_options: object) -> os.stat_result:
        raise AssertionError(f"{path}: looked at in Python")

    monkeypatch.setattr(threading.Thread, "start", counted)
    monkeypatch.setattr(local.os, "stat", looks)
    files = listing.expand(names)
    monkeypatch.undo()
    assert [file.uri for file in files] == sorted(f"file://{name}" for name in names)
    assert started.count("store call") == 1
