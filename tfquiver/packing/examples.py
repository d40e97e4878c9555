"""The records of one part, as serialized `tf.train.Example`s; errors name the file and what in it is wrong."""

from __future__ import annotations

import os
import posixpath
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.packing.example import Value, serialized
from tfquiver.packing.sources import ARROW, IMAGES, PARQUET, TAR, Part

_MOST_RECORD_BYTES = 1 << 30
_ROWS = 256
_TAR_BLOCK_BYTES = 512
_IMAGES_BEGIN = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|GIF8[79]a|BM|RIFF....WEBP", re.DOTALL)


def of_part(part: Part) -> Iterator[bytes]:
    """Raises DataLossError (a damaged file), InvalidArgumentError (what no feature can hold), PermissionError_ and
    others of its files."""
    kinds = {IMAGES: _of_images, TAR: _of_tar, PARQUET: _of_parquet, ARROW: _of_arrow}
    try:
        yield from kinds[part.kind](part)
    except OSError as error:
        file = error.filename if isinstance(error.filename, str) else str(part.files[0])
        if error.errno is None:  # pyarrow's of a damaged file
            raise errors.DataLossError(f"{file}: {error}") from error
        raise errors.from_os_error(error, file) from error


def _of_images(part: Part) -> Iterator[bytes]:
    assert part.root is not None
    labels = {name: label for label, name in enumerate(part.classes)}
    for path in part.files:
        name = path.relative_to(part.root)
        features: dict[str, Value] = {
            "image/encoded": _image(path),
            "image/filename": os.fsencode(name),
            "image/format": path.suffix[1:].lower().encode(),
        }
        if len(name.parts) > 1:
            features |= {"image/class/text": os.fsencode(name.parts[0]), "image/class/label": [labels[name.parts[0]]]}
        yield serialized(features)


def _image(path: Path) -> bytes:
    """Of another format than its name says, too: ImageNet has a PNG that is called .JPEG, and decoders look inside."""
    content = path.read_bytes()
    if not _IMAGES_BEGIN.match(content):
        raise errors.DataLossError(
            f"{path}: begins as no JPEG, PNG, GIF, BMP or WebP does: mend it, or take it out of the folder"
        )
    return content


def _of_tar(part: Part) -> Iterator[bytes]:
    """A sample of WebDataset: files that follow one another with the same name up to the first dot of its last part."""
    (path,) = part.files
    sample: dict[str, Value] = {}
    named: dict[str, tarfile.TarInfo] = {}  # a hard link has the content of one before it
    try:
        with tarfile.open(path, "r:") as tar:
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
                named[posixpath.normpath(member.name)] = held
                key, feature = _sample_of(path, member.name)
                if sample and sample["__key__"] != key:
                    yield serialized(sample)
                    sample = {}
                if held.size > _MOST_RECORD_BYTES:
                    raise errors.InvalidArgumentError(
                        f"{path}: {member.name!r} has {held.size} bytes; 1 GiB is the most"
                    )
                if feature in sample or feature == "__key__":
                    raise errors.InvalidArgumentError(f"{path}: {member.name!r}: its sample has a {feature!r} already")
                content = tar.extractfile(held)
                assert content is not None
                sample |= {"__key__": key, feature: content.read()}
            end = tar.offset
        _check_is_end(path, end)
    except tarfile.TarError as error:
        raise errors.DataLossError(f"{path}: {error}") from error
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
    """tarfile takes a damaged header behind the first one for the end."""
    with path.open("rb") as file:
        file.seek(offset)
        if file.read(_TAR_BLOCK_BYTES).strip(b"\0"):
            raise errors.DataLossError(f"{path}: damaged at byte {offset}: that is no header of a file")


def _of_parquet(part: Part) -> Iterator[bytes]:
    (path,) = part.files
    arrow = _pyarrow(path)
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                yield from _rows(path, batch)
    except arrow.ArrowException as error:
        raise errors.DataLossError(f"{path}: {error}") from error


def _of_arrow(part: Part) -> Iterator[bytes]:
    """What `datasets` saves to a disk: a stream of record batches."""
    (path,) = part.files
    arrow = _pyarrow(path)
    try:
        with arrow.memory_map(str(path)) as source, arrow.ipc.open_stream(source) as batches:
            for batch in batches:
                for at in range(0, batch.num_rows, _ROWS):
                    yield from _rows(path, batch.slice(at, _ROWS))
    except arrow.ArrowException as error:
        raise errors.DataLossError(f"{path}: {error}") from error


def _rows(path: Path, batch: Any) -> Iterator[bytes]:
    names = batch.schema.names
    for name in names if len(set(names)) < len(names) else ():
        if names.count(name) > 1:
            raise errors.InvalidArgumentError(f"{path}: has {names.count(name)} columns {name!r}, which must be one")
    try:
        rows = batch.to_pylist()
    except ValueError as error:
        if "duplicate field names" not in str(error):
            raise
        raise errors.InvalidArgumentError(f"{path}: a struct has two fields of one name") from error
    for row in rows:
        features: dict[str, Value] = {}
        for name, value in row.items():
            _put(path, name, value, features)
        yield serialized(features)


def _put(path: Path, name: str, value: Any, features: dict[str, Value]) -> None:
    """Structs become features `name/field`; what is null is left out."""
    if value is None:
        return
    if isinstance(value, dict):
        for field, inner in value.items():
            _put(path, f"{name}/{field}", inner, features)
        return
    if name in features:
        raise errors.InvalidArgumentError(f"{path}: column {name!r} and a struct's field are of one name")
    features[name] = _value(path, name, value)


def _value(path: Path, name: str, value: Any) -> Value:
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
        case bool() | int() | float():
            return _numbers(path, name, [value])
        case list() if all(isinstance(item, bytes | str) for item in value):
            return [item if isinstance(item, bytes) else item.encode() for item in value]
        case list() if all(isinstance(item, bool | int | float) for item in value):
            return _numbers(path, name, value)
    raise errors.InvalidArgumentError(
        f"{path}: column {name!r} has a {type(value).__name__}; features hold bytes, text, numbers, and lists of them"
    )


def _numbers(path: Path, name: str, values: list[Any]) -> Value:
    for value in values:
        if isinstance(value, int) and not -1 << 63 <= value < 1 << 63:
            raise errors.InvalidArgumentError(f"{path}: column {name!r} has {value}; features hold integers of 64 bits")
    return values


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise errors.InvalidArgumentError(f"{path}: pip install pyarrow to read it") from error
    return pyarrow
