"""The samples of a WebDataset tar: files that follow one another with the same name up to the first dot of its last
part. What a tar says of itself is not believed: a damaged one is told, never packed in part."""

from __future__ import annotations

import os
import posixpath
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tfquiver import errors
from tfquiver.packing.example import MOST_RECORD_BYTES, Value, serialized
from tfquiver.packing.sources import Part

_BLOCK_BYTES = 512
_LOOKED_AT_BYTES = 1 << 20  # at a time
# Of tarfile, for headers that are made up: numbers that are none, maps that end too soon, headers of headers.
_NO_TAR = (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError, MemoryError)


def of_tar(part: Part) -> Iterator[bytes]:
    """Raises DataLossError, InvalidArgumentError, and OSError of the file."""
    (path,) = part.files
    try:
        with tarfile.open(path, "r:") as tar:
            yield from _samples(path, tar)
            end = tar.offset
    except _NO_TAR as error:
        raise errors.DataLossError(f"{path}: {str(error) or type(error).__name__}") from error
    _check_is_end(path, end)


def _samples(path: Path, tar: tarfile.TarFile) -> Iterator[bytes]:
    sample: dict[str, Value] = {}
    sample_bytes = 0
    named: dict[str, tarfile.TarInfo] = {}  # a hard link has the content of one before it
    for member in tar:
        if member.issym():
            raise errors.InvalidArgumentError(
                f"{path}: {member.name!r} is a link to {member.linkname!r}, without content of its own: make "
                "the tar with --dereference"
            )
        if not member.isfile() and not member.islnk():
            continue
        held = member if member.isfile() else named.get(posixpath.normpath(member.linkname))
        if held is None:
            raise errors.DataLossError(
                f"{path}: {member.name!r} is a hard link to {member.linkname!r}, which is not before it there"
            )
        if held.size < 0 or "\0" in member.name:
            raise errors.DataLossError(f"{path}: damaged: the header of {member.name!r} has a size or name of no file")
        named[posixpath.normpath(member.name)] = held
        key, feature = _sample_of(path, member.name)
        if sample and sample["__key__"] != key:
            yield serialized(sample)
            sample, sample_bytes = {}, 0
        sample_bytes += held.size
        if sample_bytes > MOST_RECORD_BYTES:
            what = f"has {held.size} bytes" if sample_bytes == held.size else f"its sample has {sample_bytes} bytes"
            raise errors.InvalidArgumentError(f"{path}: {member.name!r}: {what}; 1 GiB is the most")
        if feature in sample or feature == "__key__":
            raise errors.InvalidArgumentError(f"{path}: {member.name!r}: its sample has a {feature!r} already")
        content = tar.extractfile(held)
        assert content is not None
        sample |= {"__key__": key, feature: content.read()}
    if sample:
        yield serialized(sample)


def _sample_of(path: Path, member: str) -> tuple[bytes, str]:
    """Its key, and the feature's name."""
    folder, _, last = member.rpartition("/")
    stem, _, extension = last.partition(".")
    if not extension.isprintable():
        raise errors.InvalidArgumentError(f"{path}: {member!r}: what is behind the dot cannot be a feature's name")
    return os.fsencode(f"{folder}/{stem}" if folder else stem), extension or "data"


def _check_is_end(path: Path, offset: int) -> None:
    """tarfile takes for the end: a damaged header behind the first one, an empty block, the end of the file."""
    with path.open("rb") as file:
        file.seek(offset)
        first = file.read(_BLOCK_BYTES)
        if first.strip(b"\0"):
            raise errors.DataLossError(f"{path}: damaged at byte {offset}: that is no header of a file")
        if len(first) < _BLOCK_BYTES:
            raise errors.DataLossError(
                f"{path}: cut off at byte {offset}: a tar ends with empty blocks; fetch it again (if it is whole and "
                f"was never given them: truncate -s +1024)"
            )
        at = offset + len(first)
        while more := file.read(_LOOKED_AT_BYTES):
            if more.strip(b"\0"):
                at += len(more) - len(more.lstrip(b"\0"))
                raise errors.DataLossError(
                    f"{path}: has something at byte {at}, behind its end at byte {offset}: damaged, or several tars "
                    "in one file, which tar --concatenate makes one"
                )
            at += len(more)
