"""Directories as sources of data sets."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.support import records
from tfquiver import errors
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests import formats
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing.directories import beneath
from tfquiver.listing.listing import expand
from tfquiver.mounting.named import AUTO, named


@pytest.mark.parametrize("called", ["plain", "a[1]", "what?", "all*", "a]b[", "[!x]"])
def test_a_directorys_name_means_itself(tmp_path: Path, called: str) -> None:
    wanted = tmp_path / called / "in" / "file"
    wanted.parent.mkdir(parents=True)
    wanted.write_bytes(b"x")
    for other in ("a1", "whatx", "all of it"):
        (tmp_path / other).mkdir(exist_ok=True)
        (tmp_path / other / "file").write_bytes(b"y")
    for source in (str(tmp_path / called), f"{tmp_path / called}/", f"file://{tmp_path / called}/"):
        assert [file.uri for file in expand([beneath(source, True)])] == [f"file://{wanted}"], source


@pytest.mark.parametrize("wrong", ["/" + "x" * 300, "~nobody-of-that-name/x", "/a\0b", "x" * 5000])
def test_what_is_wrong_with_a_path_the_listing_says(wrong: str) -> None:
    with pytest.raises(errors.TfquiverError):
        expand([beneath(wrong, True)])


def test_a_directory_without_files_is_named_as_it_was_given(tmp_path: Path) -> None:
    """It was `/***`."""
    with pytest.raises(errors.NotFoundError) as nothing:
        expand([beneath(f"{tmp_path}/", True)])
    assert str(nothing.value) == f"no match for {tmp_path}/: {tmp_path} is empty"


def test_what_ends_in_a_slash_is_a_directory_everywhere_and_all_else_is_itself(tmp_path: Path) -> None:
    assert beneath("gs://bucket/images/", False) == "gs://bucket/images/**"
    assert beneath("gs://bucket/*/", True) == "gs://bucket/*/**"
    for itself in ("gs://bucket/images", "gs://bucket/*.jpg", str(tmp_path / "not-there"), f"{tmp_path}/*"):
        assert beneath(itself, True) == itself


def test_what_begins_with_a_dot_belongs_to_a_tree_and_not_among_records(tmp_path: Path) -> None:
    names = [".zgroup", "a/.zarray", "a/0.0", ".b/.c/d"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for hidden, wanted in ((True, sorted(names)), (False, ["a/0.0"])):
        found = expand([beneath(str(tmp_path), hidden)])
        assert [file.uri.removeprefix(f"file://{tmp_path}/") for file in found] == wanted


@pytest.mark.parametrize("format", [AUTO, formats.TFRECORD])
def test_a_mount_of_what_pack_has_made_shows_its_records_only(tmp_path: Path, format: str) -> None:
    (tmp_path / "train-0.tfrecord").write_bytes(records.stream([b"one", b"two"]))
    (tmp_path / "train.pack.json").write_text("{}")
    shown = list[FileEntry]()

    class Seen:
        def files(self, files: list[FileEntry], *_: object) -> None:
            shown.extend(files)

    named([f"{tmp_path}/"], "", format).register(cast(Registrar, Seen()), None, "")
    assert [file.uri for file in shown] == [f"file://{tmp_path}/train-0.tfrecord"]
