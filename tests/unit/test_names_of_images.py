"""What `tfquiver pack` keeps of the names of images, of which there may be millions."""

from __future__ import annotations

import os
import pickle
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.packing import sources
from tfquiver.packing.folders import Files, FilesIn, begins, path_of

IMAGES = 3000
names = st.text(st.sampled_from("aB.-_ \u00e9/\udcff"), min_size=1, max_size=6)


def test_of_an_image_no_more_is_kept_than_its_name(tmp_path: Path) -> None:
    """Each was a path object and two strings, more than a kilobyte."""
    for number in range(IMAGES):
        folder = tmp_path / "images" / f"n{number % 3:08}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"n{number % 3:08}_{number:08}.JPEG").write_bytes(b"x")
    name_bytes = len(os.fsencode(folder / "n00000000_00000000.JPEG"))
    tracemalloc.start()
    try:
        parts = sources.parts([tmp_path / "images"], 1 << 20)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(part.files) for part in parts) == IMAGES
    assert kept / IMAGES < name_bytes + 20
    assert most / IMAGES < 4 * name_bytes + 200


@given(st.lists(names.filter(lambda name: all(one not in ("", ".", "..") for one in name.split("/"))), unique=True))
def test_they_are_sorted_as_paths_are_and_come_out_as_they_went_in(some: list[str]) -> None:
    root, found = Path("in"), FilesIn()
    paths = [root / name for name in some]
    for path in paths:
        found.add(found.add_folder(path.parent, str(path.parent)) + path.name)
    assert [one.path for one in found] == paths
    keys = found.once_in_each_folder({path.suffix.lower() for path in paths}, lambda path: None)
    files = Files.of(keys)
    assert list(files) == [path_of(key) for key in keys] == sorted(paths)
    assert pickle.loads(pickle.dumps(files)) == files
    assert (len(files), set(files.folders())) == (len(paths), {path.parent for path in paths})
    if paths:
        assert files[0] == min(paths) and files[-1] == max(paths)
        one = paths[0].suffix
        assert [two.path for two in found.ending(one)] == [path for path in paths if path.suffix == one]
        others = [path for path in sorted(paths) if path.suffix.lower() != one.lower()]
        assert list(found.not_ending({one.lower()})) == others


@pytest.mark.parametrize("folder", [".", "/", "a", "/a/b", "a b/c"])
def test_what_lies_in_any_folder_has_its_path(folder: str) -> None:
    assert path_of(begins(Path(folder)) + "x.png") == Path(folder) / "x.png"
