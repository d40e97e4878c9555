"""What a source is, and the parts that become a file each: the same source gives the same parts, whoever looks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfquiver import errors

IMAGES, TAR, PARQUET, ARROW = "images", "tar", "parquet", "arrow"
_IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"})
_KINDS = {".tar": TAR, ".parquet": PARQUET, ".arrow": ARROW}


@dataclass(frozen=True, slots=True)
class Part:
    """`root`: of an image folder, whose folders are classes; `classes`: their names, sorted. `source`: what was
    named."""

    kind: str
    files: tuple[Path, ...]
    root: Path | None = None
    classes: tuple[str, ...] = ()
    source: Path | None = None


def parts(sources: Sequence[Path], part_bytes: int, left_out: Callable[[Path], None] = lambda path: None) -> list[Part]:
    """Args: part_bytes: of images in one file, about; each of other files is a part. left_out: is told of each file
    of a folder that no part has.

    Raises NotFoundError, InvalidArgumentError: a source that is nothing we know; DataLossError: an image that is
    empty. Names it.
    """
    return [replace(part, source=source) for source in sources for part in _of(source, part_bytes, left_out)]


def _of(source: Path, part_bytes: int, left_out: Callable[[Path], None]) -> list[Part]:
    if not source.exists():
        raise errors.NotFoundError(f"{source}: no such file or folder")
    if source.is_file():
        if source.suffix not in _KINDS:
            raise errors.InvalidArgumentError(f"{source}: must be a folder, or end in {', '.join(sorted(_KINDS))}")
        return [Part(_KINDS[source.suffix], (source,))]
    files = sorted(_files_in(source))
    made: list[Part] = []
    for suffix, kind in _KINDS.items():
        found = [path for path in files if path.suffix == suffix and not path.name.startswith("cache-")]
        if found:
            made = [Part(kind, (path,)) for path in found]
            break
    else:
        found = [path for path in files if path.suffix.lower() in _IMAGE_SUFFIXES]
        if not found:
            endings = ", ".join(sorted(_KINDS))
            raise errors.InvalidArgumentError(f"{source}: has neither images nor files that end in {endings}")
        made = _images(source, found, part_bytes)
    taken = set(found)
    for path in files:
        if path not in taken:
            left_out(path)
    return made


def _files_in(folder: Path, inside: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Of it and all below, links followed. `inside`: the real paths of folders that it lies in.

    Raises PermissionError_ and others: what cannot be read is not left out; InvalidArgumentError: it lies in itself.
    """
    real = os.path.realpath(folder)
    if real in inside:
        raise errors.InvalidArgumentError(f"{folder}: a link to a folder that it lies in, {real}: it has no end")
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            path = Path(entry.path)
            if entry.is_dir():
                yield from _files_in(path, inside | {real})
            elif entry.is_file():
                yield path
            elif entry.is_symlink() and path.suffix.lower() in _KINDS.keys() | _IMAGE_SUFFIXES:
                raise errors.NotFoundError(f"{path}: a link to what is not there, {path.readlink()}")
    except OSError as error:
        raise errors.from_os_error(error, str(error.filename or folder)) from error


def _images(root: Path, images: Sequence[Path], part_bytes: int) -> list[Part]:
    classes = tuple(sorted({path.relative_to(root).parts[0] for path in images if path.parent != root}))
    # Every n-th, so that each file has images of all classes.
    total = 0
    for path in images:
        if not (size := path.stat().st_size):
            raise errors.DataLossError(f"{path}: is empty, no image: mend it, or take it out of the folder")
        total += size
    count = min(len(images), max(1, -(-total // part_bytes)))
    groups = [list(images[number::count]) for number in range(count)]
    return [Part(IMAGES, tuple(group), root, classes) for group in groups]
