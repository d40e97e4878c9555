"""A data set's files as a tree, against the plain way to say what is in a directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.glob_patterns_and_file_trees import paths, tree
from tfquiver.glob_patterns_and_file_trees.tree import FileTree
from tfquiver.stores.times import modified_ns

names = st.text(st.sampled_from("ab-./0é~"), min_size=1, max_size=3).filter(
    lambda name: "/" not in name and name not in (".", "..")
)
relative = st.lists(names, min_size=1, max_size=3).map("/".join)


def of(*uris: str) -> FileTree:
    return FileTree([FileEntry(uri, 1, "7", "none") for uri in uris])


def walked(shown: FileTree, directory: int = tree.ROOT) -> dict[str, int]:
    """Path to file index, by listing and looking up all that is found."""
    found = {}
    for entry in shown.entries(directory):
        assert shown.lookup(directory, entry.name) == entry
        if entry.is_directory:
            assert shown.is_directory(entry.inode)
            found |= {f"{entry.name}/{rest}": at for rest, at in walked(shown, entry.inode).items()}
        else:
            index = shown.file_index(entry.inode)
            assert index is not None
            assert not shown.is_directory(entry.inode)
            found[entry.name] = index
    return found


def is_possible(files: set[str]) -> bool:
    return not any(other.startswith(f"{file}/") for file in files for other in files)


@pytest.mark.slow
@given(st.sets(relative, min_size=1, max_size=12).filter(is_possible))
def test_what_is_listed_is_what_there_is(files: set[str]) -> None:
    uris = [f"s3://bucket/x/{file}" for file in sorted(files, reverse=True)]
    shown = walked(of(*uris))
    hidden = paths.split(uris)[1]
    assert {uris[at][hidden:]: at for at in range(len(uris))} == shown
    assert sorted(uris[at] for at in shown.values()) == sorted(uris)
    assert len({path.partition("/")[0] for path in shown}) > 1 or len(shown) == 1, "nothing more is in common"


@pytest.mark.slow
@given(st.sets(relative, min_size=1, max_size=12).filter(is_possible))
def test_a_listing_can_be_broken_off_anywhere(files: set[str]) -> None:
    shown = of(*(f"s3://bucket/{file}" for file in files))
    whole = list(shown.entries(tree.ROOT))
    at, resumed = 0, []
    while (entry := next(shown.entries(tree.ROOT, at), None)) is not None:
        resumed.append(entry)
        at = entry.after
    assert resumed == whole


def test_names_that_are_not_there() -> None:
    shown = of("gs://b/a/x", "gs://b/c")
    assert shown.lookup(tree.ROOT, "b") is None
    assert shown.lookup(tree.ROOT, "a/x") is None
    assert shown.lookup(tree.ROOT, "") is None
    assert shown.lookup(999, "a") is None


@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        (["gs://b/train/1.jpg", "gs://b/train/cat/2.jpg"], {"1.jpg", "cat/2.jpg"}),
        (["gs://b/train/1.jpg"], {"1.jpg"}),
        (["gs://one/x", "gs://two/x"], {"one/x", "two/x"}),
        (["gs://one/x", "s3://two/x", "file:///d/x"], {"gs/one/x", "s3/two/x", "file/d/x"}),
        (["file:///d/part-1", "file:///d/part-2"], {"part-1", "part-2"}),
        (["file:///a", "file:///b"], {"a", "b"}),
    ],
)
def test_what_all_have_in_common_is_not_shown(uris: list[str], expected: set[str]) -> None:
    assert set(walked(of(*uris))) == expected


def test_what_consoles_leave_for_a_directory_is_none_of_the_files() -> None:
    shown = FileTree([FileEntry("gs://b/d/", 0, "", "none"), FileEntry("gs://b/d/x", 1, "", "none")])
    assert walked(shown) == {"x": 1}


@pytest.mark.parametrize("name", ["a//b", "a/../b", "./a", "x" * 256, "a\0b", ".tfquiver/next", "a/"])
def test_names_that_no_file_has(name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="s3://b/"):
        of("s3://b/q", f"s3://b/{name}")


def test_a_file_that_is_a_directory_too() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="a file and a directory"):
        of("s3://b/a", "s3://b/a-b", "s3://b/a/b/c", "s3://b/z")


def test_times() -> None:
    assert modified_ns(FileEntry("file:///x", 1, "1700000000123456789-1-2")) == 1700000000123456789
    assert modified_ns(FileEntry("gs://b/x", 1, "1700000000123456")) == 1700000000123456000
    for generation in ("", "etag", "-1", "9" * 30, "½"):
        assert modified_ns(FileEntry("file:///x", 1, generation)) == 0
        assert modified_ns(FileEntry("gs://b/x", 1, generation)) == 0
