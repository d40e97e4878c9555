"""What a pattern matches on this machine: as `glob` has it, but for links in a circle, which have no end."""

from __future__ import annotations

import glob
import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfquiver import errors, stores
from tfquiver.glob_patterns_and_file_trees import trees
from tfquiver.log_files_and_lines import rare_lines

_NAMES = st.sampled_from(["a", "b", ".h", "[x]", "c d"])
_PATHS = st.lists(st.lists(_NAMES, min_size=1, max_size=4), max_size=12)
_PATTERNS = st.lists(st.sampled_from(["**", "*", "a", "[ab]", ".*", "**", "[[]x]"]), min_size=1, max_size=4)


@example([["a"]], [], ["a", "**"], False)
@given(_PATHS, st.lists(st.tuples(_NAMES, _NAMES), max_size=2), _PATTERNS, st.booleans())
def test_it_is_what_glob_finds(
    paths: list[list[str]], links: list[tuple[str, str]], pattern: list[str], hidden: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
        for at, parts in enumerate(paths):
            path = Path(elsewhere if at % 3 == 2 else folder, *parts)
            if not any(above.is_file() for above in path.parents) and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        for name, to in links:  # to what is outside, files and directories
            if not (link := Path(folder, name)).exists() and Path(elsewhere, to).exists():
                link.symlink_to(Path(elsewhere, to))
        where = os.path.join(glob.escape(folder), *pattern)  # noqa: PTH118
        expected = glob.glob(where, recursive=True, include_hidden=hidden)  # noqa: PTH207
        # As the kernel says: of `file/**` some versions of glob make `file/`, which is nothing.
        assert {name for name in trees.matching(where, hidden) if os.path.isfile(name)} == {  # noqa: PTH113
            name
            for name in expected
            if os.path.isfile(name)  # noqa: PTH113
        }


@pytest.mark.parametrize("pattern", ["**", "***", "**/*.bin", "*/**/1.bin", "**/c/**"])
def test_links_in_a_circle_are_gone_through_once(tmp_path: Path, pattern: str) -> None:
    """Of two in one directory `glob` makes 2^40 names."""
    inner = tmp_path / "data" / "b" / "c"
    inner.mkdir(parents=True)
    (inner / "1.bin").write_bytes(b"1")
    for name, to in (("up", ".."), ("itself", "."), ("over", "../.."), ("root", str(tmp_path / "data"))):
        (inner / name).symlink_to(to)
    found = [one.uri for one in stores.for_uri("/").list(f"{tmp_path}/data/{pattern}")]
    assert found == [f"file://{inner}/1.bin"]


def test_links_that_lead_to_one_another_end(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of-{name}").touch()
        (tmp_path / name / "other").symlink_to(tmp_path / other)
    found = [one.uri.removeprefix(f"file://{tmp_path}/") for one in stores.for_uri("/").list(f"{tmp_path}/**")]
    assert found == ["a/of-a", "a/other/of-b", "b/of-b", "b/other/of-a"]


def test_a_link_to_what_is_elsewhere_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there" / "deep").mkdir(parents=True)
    (tmp_path / "there" / "deep" / "file").touch()
    (tmp_path / "here").mkdir()
    for name in ("one", "two"):
        (tmp_path / "here" / name).symlink_to(tmp_path / "there")
    found = [one.uri for one in stores.for_uri("/").list(f"{tmp_path}/here/**")]
    assert found == [f"file://{tmp_path}/here/{name}/deep/file" for name in ("one", "two")]


def test_of_many_links_in_a_circle_one_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rare_lines, "_rarely", rare_lines._Rarely())
    for number in range(20):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "up").symlink_to("..")
    assert not list(stores.for_uri("/").list(f"{tmp_path}/**"))
    assert sum("left out: a link" in message for message in caplog.messages) == 1


def linked(folder: Path, count: int) -> None:
    """Directories each of which has a file, and a link to each of the others."""
    for number in range(count):
        (folder / f"d{number}").mkdir()
        (folder / f"d{number}" / "file").touch()
    for number in range(count):
        for other in range(count):
            if other != number:
                (folder / f"d{number}" / f"to{other}").symlink_to(folder / f"d{other}")


def test_directories_that_link_to_one_another_are_refused_before_a_tree_of_all_their_ways(tmp_path: Path) -> None:
    """Ten of them took for ever, and each file had millions of names; five are what links make of them."""
    linked(tmp_path, 10)
    with pytest.raises(errors.InvalidArgumentError) as refused:
        stores.for_uri("/").list(f"{tmp_path}/**")
    said = str(refused.value)
    assert f"{tmp_path}: more than {trees.MOST_WAYS} ways lead through symbolic links to the directory " in said
    assert f"to the directory {tmp_path}/d" in said and "remove links" in said
    few = tmp_path / "few"
    few.mkdir()
    linked(few, 5)
    assert len(stores.for_uri("/").list(f"{few}/**")) == 5 * (1 + 4 * (1 + 3 * (1 + 2 * (1 + 1))))


def test_a_directory_that_each_of_many_links_to_is_in_each(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "file").touch()
    for number in range(2 * trees.MOST_WAYS):
        (tmp_path / f"run{number}").mkdir()
        (tmp_path / f"run{number}" / "assets").symlink_to("../common")
    assert len(stores.for_uri("/").list(f"{tmp_path}/**")) == 2 * trees.MOST_WAYS + 1


def test_so_it_is_behind_a_link_to_all_of_them(tmp_path: Path) -> None:
    """`current -> v3` was refused where more than 256 directories of v3 link to one."""
    (tmp_path / "v3" / "common").mkdir(parents=True)
    (tmp_path / "v3" / "common" / "file").touch()
    for number in range(trees.MOST_WAYS + 1):
        (tmp_path / "v3" / f"class{number}").mkdir()
        (tmp_path / "v3" / f"class{number}" / "assets").symlink_to("../common")
    (tmp_path / "current").symlink_to("v3")
    assert len(stores.for_uri("/").list(f"{tmp_path}/**")) == 2 * (trees.MOST_WAYS + 2)


@pytest.mark.slow
def test_links_each_of_many_times_many_ways_are_refused(tmp_path: Path) -> None:
    """Three directories in a row, without which there would be 300 times 300 trees."""
    for one, other in (("a", "b"), ("b", "c"), ("c", "")):
        (tmp_path / one).mkdir()
        for number in range(trees.MOST_WAYS + 1 if other else 0):
            (tmp_path / one / f"{number}").symlink_to(tmp_path / other)
    with pytest.raises(errors.InvalidArgumentError, match=f"to the directory {tmp_path}/c, the last one"):
        stores.for_uri("/").list(f"{tmp_path}/a/**")


def test_a_list_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    """Its thread went through the whole tree all the same."""
    (tmp_path / "a").mkdir()
    with pytest.raises(errors.UnavailableError, match=f"{tmp_path}: it takes too long to list it: given up in"):
        trees.matching(f"{tmp_path}/**", False, until_s=time.monotonic() - 1)
