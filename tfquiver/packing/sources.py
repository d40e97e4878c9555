"""What a source is, and the parts that become a file each: the same source gives the same parts, whoever looks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfquiver import errors, named_files
from tfquiver.packing.folders import BETWEEN, Files, Told, begins, files_in, folders_of, once, path_of
from tfquiver.packing.saved_datasets import NOTES, data_of

IMAGES, TAR, PARQUET, ARROW = "images", "tar", "parquet", "arrow"
_IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"})
_KINDS = {".tar": TAR, ".parquet": PARQUET, ".arrow": ARROW}


@dataclass(frozen=True, slots=True)
class Part:
    """`root`: of an image folder, whose folders are classes; `classes`: their names, sorted. `source`: what was
    named."""

    kind: str
    files: Sequence[Path]
    root: Path | None = None
    classes: tuple[str, ...] = ()
    source: Path | None = None


def parts(
    sources: Sequence[Path], part_bytes: int, left_out: Told = lambda path: None, passed_over: Told = lambda path: None
) -> list[Part]:
    """Args: part_bytes: of images in one file, about; each of other files is a part. left_out: is told of each file
    of a folder that no part has; passed_over: of each link in a folder to what is packed under another name.

    Raises NotFoundError, InvalidArgumentError: a source that is nothing we know; DataLossError: an image that is
    empty, a file that a data set names and that is not there. Names it. InvalidArgumentError, too: a file is of two
    sources.
    """
    found = [[replace(part, source=one) for part in _of(one, part_bytes, left_out, passed_over)] for one in sources]
    if sources[1:]:
        _check_once(sources, found)
    return [part for its in found for part in its]


def _check_once(sources: Sequence[Path], found: Sequence[Sequence[Part]]) -> None:
    folders: dict[Path, str] = {}  # each is looked at once: of images there are many more
    first: dict[str, int] = {}
    of_several = set[str]()
    for number, folder in ((number, one) for number, its in enumerate(found) for one in _folders(its)):
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        if first.setdefault(folders[folder], number) != number:
            of_several.add(folders[folder])
    if not of_several:
        return
    seen: dict[tuple[str, str], int] = {}
    for number, path in ((number, path) for number, its in enumerate(found) for part in its for path in part.files):
        if (real := folders[path.parent]) not in of_several:
            continue
        if (before := seen.setdefault((real, path.name), number)) != number:
            one, other = sources[before], sources[number]
            twice = f"{one}: is named twice" if one == other else f"{path}: is in {one} and in {other}"
            raise errors.InvalidArgumentError(f"{twice}, and would be packed twice: name it once")


def _folders(parts: Sequence[Part]) -> dict[Path, None]:
    return dict.fromkeys(folder for part in parts for folder in folders_of(part.files))


def _of(source: Path, part_bytes: int, left_out: Told, passed_over: Told) -> list[Part]:
    try:
        source.stat()
    except (OSError, ValueError) as error:
        raise named_files.not_read(error, str(source), source) from error
    if source.is_file():
        if source.suffix not in _KINDS:
            raise errors.InvalidArgumentError(f"{source}: must be a folder, or end in {', '.join(sorted(_KINDS))}")
        return [Part(_KINDS[source.suffix], (source,))]
    files = files_in(source, _KINDS.keys() | _IMAGE_SUFFIXES, passed_over)
    for suffix, kind in _KINDS.items():
        found = [file for file in files.ending(suffix) if not file.path.name.startswith("cache-")]
        if kind == ARROW:
            found = data_of(found, files.called(NOTES))
        if found:
            made = [Part(kind, (path,)) for path in once(found, passed_over)]
            taken = set(found)
            for path in sorted(file.path for file in files if file not in taken):
                left_out(path)
            return made
    images = files.once_in_each_folder(_IMAGE_SUFFIXES, passed_over)  # its folder is an image's class
    if not images:
        endings = ", ".join(sorted(_KINDS))
        raise errors.InvalidArgumentError(f"{source}: has neither images nor files that end in {endings}")
    for path in files.not_ending(_IMAGE_SUFFIXES):
        left_out(path)
    return _images(source, images, part_bytes)


def _images(root: Path, images: Sequence[str], part_bytes: int) -> list[Part]:
    """`images`: as FilesIn.once_in_each_folder gives them."""
    behind = len(begins(root))
    classes = tuple(sorted({key[behind:].partition(BETWEEN)[0] for key in images if BETWEEN in key[behind:]}))
    # Every n-th, so that each file has images of all classes.
    total = 0
    for key in images:
        if not (size := path_of(key).stat().st_size):
            raise errors.DataLossError(f"{path_of(key)}: is empty, no image: mend it, or take it out of the folder")
        total += size
    count = min(len(images), max(1, -(-total // part_bytes)))
    return [Part(IMAGES, Files.of(images[number::count]), root, classes) for number in range(count)]
