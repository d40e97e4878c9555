from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import MemoryStore
from tfquiver import errors, stores
from tfquiver.digests.file_entry import FileEntry
from tfquiver.glob_patterns_and_file_trees import globs
from tfquiver.listing import listing
from tfquiver.scanning.cutting import CutPolicy


def expand(source: listing.Source, store: MemoryStore) -> list[FileEntry]:
    return listing.expand(source, lambda _: store)


def test_files_are_sorted_and_listed_once() -> None:
    store = MemoryStore({"mem://b": b"12", "mem://a": b"1"})
    files = expand(["mem://b", "mem://*", "mem://a"], store)
    assert files == [FileEntry("mem://a", 1, "1", "auto"), FileEntry("mem://b", 2, "1", "auto")]


def test_no_match_names_the_pattern() -> None:
    with pytest.raises(errors.NotFoundError, match="no match for mem://nope"):
        expand(["mem://*", "mem://nope"], MemoryStore({"mem://a": b""}))
    with pytest.raises(errors.InvalidArgumentError, match="no files named"):
        expand([], MemoryStore())


def test_a_path_that_no_file_system_takes(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    for path in ("x" * 10_000, "x/" * 3000, str(tmp_path / "round")):
        with pytest.raises((errors.InvalidArgumentError, errors.NotFoundError)) as refused:
            listing.expand(path)
        assert not isinstance(refused.value, errors.UnavailableError), "nobody is to try that again"


def test_a_pattern_in_a_directory_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(errors.NotFoundError):
        listing.expand("*.rec")


def test_a_scheme_without_a_store_says_what_to_install() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"no store for quux://.*install '\.\[fsspec\]' in a clone"):
        stores.for_uri("quux://bucket/file")


def test_a_scheme_as_other_programs_call_it_is_told_what_to_write() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"no store for gcs:// here: write gs://"):
        stores.for_uri("gcs://bucket/file")


def test_the_key_depends_on_everything_that_matters() -> None:
    one = FileEntry("a", 1, "g")
    keys = [
        listing.listing_key(files, policy)
        for files, policy in [
            ([one], CutPolicy()),
            ([FileEntry("b", 1, "g")], CutPolicy()),
            ([FileEntry("a", 2, "g")], CutPolicy()),
            ([FileEntry("a", 1, "h")], CutPolicy()),
            ([one, FileEntry("b", 1, "g")], CutPolicy()),
            ([one], CutPolicy(1, 1, 1)),
        ]
    ]
    assert len(set(keys)) == len(keys)
    assert listing.listing_key([FileEntry("a", 1, "g", "gzip")], CutPolicy()) == keys[0]


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("train-*", ["train-", "train-1"], ["train-1/2", "xtrain-1"]),
        ("d/**/x", ["d/x", "d/a/x", "d/a/b/x"], ["dx", "d/ax"]),
        ("d/**", ["d/", "d/a/b"], ["d"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("a[0-9]c", ["a5c"], ["axc"]),
        ("a[!0-9]c", ["axc"], ["a5c", "a/c"]),
        ("a[]x]c", ["a]c", "axc"], ["a[c"]),
        ("a[x", ["a[x"], ["ax"]),
        ("a[[x]", ["a[", "ax"], ["a"]),
        ("a[--0x]", ["a-", "a.", "ax"], ["a1", "a/"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_globs(pattern: str, matches: list[str], others: list[str]) -> None:
    compiled = globs.compile_glob(pattern)
    assert all(compiled.fullmatch(name) for name in matches)
    assert not any(compiled.fullmatch(name) for name in others)
    assert all(name.startswith(globs.literal_prefix(pattern)) for name in matches)


@given(st.text(st.sampled_from("a[]!^*?-/\\&|~.z"), max_size=12), st.text(st.sampled_from("a[]-/.z"), max_size=6))
def test_any_glob_compiles_and_literals_match_themselves(pattern: str, name: str) -> None:
    try:
        compiled = globs.compile_glob(pattern)
    except errors.InvalidArgumentError as error:
        assert "bad character range" in str(error)
        return
    if compiled.fullmatch(name):
        assert name.startswith(globs.literal_prefix(pattern))
    if not globs.is_glob(pattern):
        assert compiled.fullmatch(pattern)


def test_what_pack_says_of_its_files_is_none_of_the_records(tmp_path: Path) -> None:
    for name in ("train-0.tfrecord", "train.pack.json", "train.json"):
        (tmp_path / name).touch()

    def names(pattern: str, of_records: bool) -> list[str]:
        return [Path(file.uri).name for file in listing.expand(str(tmp_path / pattern), of_records=of_records)]

    for pattern in ("*", "train*", "**"):
        assert names(pattern, of_records=True) == ["train-0.tfrecord", "train.json"], pattern
        assert len(names(pattern, of_records=False)) == 3, "of any files it is one"
    for itself in ("train.pack.json", "*.pack.json"):
        assert names(itself, of_records=True) == ["train.pack.json"], "who names it means it"
