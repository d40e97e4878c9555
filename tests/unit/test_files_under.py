"""What the reader library finds is what Python finds; what it leaves to Python, Python has found all the time."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.glob_patterns_and_file_trees import files_under as under
from tfquiver.glob_patterns_and_file_trees.files_under import files_under
from tfquiver.listing import listing
from tfquiver.listing.listed_files import ListedFiles
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.stores.local import LocalStore


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    # As sorted by URI `a-b/` stands before `a/`.
    for directory in ("a", "a-b", "a0", ".hidden", "ä", "aa/deeper"):
        (root / directory).mkdir(parents=True)
        for name in ("x", "x1", "x-2.rec", ".x", "é\n", "x€y", "x.pack.json", "\U0001f40d", "x" * 200):
            (root / directory / name).write_bytes(name.encode())
    (root / "a" / "directory.rec").mkdir()
    (root / "a" / "link.rec").symlink_to(root / "a0" / "x")
    (root / "linked").symlink_to(root / "a0")
    os.mkfifo(root / "a" / "fifo.rec")
    os.utime(root / "a" / "x", ns=(1, -1_500_000_000))
    return root


def in_python(pattern: str) -> list[FileEntry]:
    return [FileEntry(one.uri, one.size_bytes, one.generation) for one in LocalStore().list(pattern)]


USUAL = (
    "*/*", "*/x", "*/*.rec", "a*/x?", "a*/x?y", "?/*", "??/*", "a/*", ".*/*", "*/.*", "*a/*", "*/*/*", "a*/*/x",
    "*/x*1", "*/x-?.r*c", "linked/*", "linked/../a/*", "./*/x", "*//x", "*/?", "*/x" + "x" * 190 + "*",
)  # fmt: skip


@pytest.mark.parametrize("pattern", USUAL)
def test_it_finds_what_python_finds(tree: Path, pattern: str) -> None:
    found = LocalStore().list_at_once(f"{tree}/{pattern}", "")
    assert found is not None, "it is usual"
    expected = in_python(f"{tree}/{pattern}")
    files = ListedFiles(found.listing, len(found))
    assert expected, "a pattern that says something"
    assert list(files) == expected and len(files) == len(expected)
    assert listing.listing_key(files, CutPolicy()) == listing.listing_key(expected, CutPolicy())
    sizes = [size for size, _modified_ns, _inode in struct.iter_unpack("=QqQ", found.numbers)]
    assert sizes == [file.size_bytes for file in files]


@given(pattern=st.text(st.sampled_from("a*?x-€/.1"), min_size=1, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_pattern_means_the_same_to_both(tree: Path, pattern: str) -> None:
    found = LocalStore().list_at_once(f"{tree}/{pattern}", "")
    if found is not None:
        expected = sorted(in_python(f"{tree}/{pattern}"), key=lambda file: file.uri)
        assert list(ListedFiles(found.listing, len(found))) == expected


@pytest.mark.parametrize("pattern", ["a/x", "**", "a/**/x", "[a]/x", "a[b/*", "gone/*", "*/../a/*"])
def test_what_is_unusual_is_left_to_python(tree: Path, pattern: str) -> None:
    assert LocalStore().list_at_once(f"{tree}/{pattern}", "") is None


def test_what_is_wrong_is_left_to_python_which_says_so(tmp_path: Path) -> None:
    (tmp_path / "to nothing").symlink_to(tmp_path / "nothing")
    (tmp_path / "x").touch()
    assert LocalStore().list_at_once(f"{tmp_path}/*", "") is None
    with pytest.raises(errors.NotFoundError, match="a symbolic link to nothing"):
        listing.expand(f"{tmp_path}/*")
    (tmp_path / "to nothing").unlink()
    with Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).open("w"):
        pass
    assert LocalStore().list_at_once(f"{tmp_path}/*", "") is None
    with pytest.raises(errors.InvalidArgumentError, match="not UTF-8"):
        listing.expand(f"{tmp_path}/*")


def test_the_name_of_a_pattern_may_be_a_file(tmp_path: Path) -> None:
    for name in ("x*", "xy"):
        (tmp_path / name).touch()
    assert [Path(file.uri).name for file in listing.expand(f"{tmp_path}/x*")] == ["x*"]


def test_a_rewritten_file_makes_another_key(tmp_path: Path) -> None:
    for name in ("x1", "x2"):
        (tmp_path / name).write_text("before")
    keys = set()
    for change in (lambda: None, lambda: (tmp_path / "x1").write_text("behind"), (tmp_path / "x2").unlink):
        change()
        files = listing.expand(f"{tmp_path}/x*")
        assert isinstance(files, ListedFiles)
        keys.add(listing.listing_key(files, CutPolicy()))
        assert listing.listing_key(list(files), CutPolicy()) in keys
    assert len(keys) == 3


def test_a_time_that_64_bits_of_nanoseconds_do_not_hold_is_left_to_python(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    path.write_bytes(b"x")
    os.utime(path, ns=(0, 10_413_792_000 * 10**9))  # in 2300
    assert path.stat().st_mtime_ns == 10_413_792_000 * 10**9, "this file system holds it"
    assert list(listing.expand(str(tmp_path / "*"))) == in_python(str(tmp_path / "*"))


def test_every_file_and_no_link(tree: Path) -> None:
    found = files_under(str(tree), "*/*", every=True)
    assert found is not None and not found.listing
    names = {name.decode() for name in found.names.split(b"\0")[:-1]}
    everything = {f"{path.parent.name}/{path.name}" for path in tree.glob("*/*") if not path.parent.is_symlink()}
    assert names == {name for name in everything if (tree / name).is_file() and not (tree / name).is_symlink()}
    assert ".hidden/.x" in names


def test_without_a_library_that_has_it_python_looks(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = listing.expand(f"{tree}/a*/*")
    monkeypatch.setattr(under, "_library", lambda: None)
    assert LocalStore().list_at_once(f"{tree}/a*/*", "") is None
    files = listing.expand(f"{tree}/a*/*")
    assert isinstance(files, list) and files == expected and expected == files
    assert listing.listing_key(files, CutPolicy()) == listing.listing_key(expected, CutPolicy())


def test_a_listing_is_what_keys_are_made_of(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"123")
    found = LocalStore().list_at_once(f"{tmp_path}/*", "")
    assert found is not None
    [file] = in_python(f"{tmp_path}/*")
    texts = [text.encode() for text in (file.uri, "3", file.generation)]
    assert found.listing == b"".join(len(text).to_bytes(8, "little") + text for text in texts)
