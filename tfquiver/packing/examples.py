"""The records of one part, as serialized `tf.train.Example`s; errors name the file and what in it is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.packing.example import Value, serialized
from tfquiver.packing.sources import ARROW, IMAGES, PARQUET, TAR, Part
from tfquiver.packing.tars import of_tar

_ROWS = 256
_ARROW_END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream of messages that each begin with its first four bytes
_IMAGES_BEGIN = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|GIF8[79]a|BM|RIFF....WEBP", re.DOTALL)


def of_part(part: Part) -> Iterator[bytes]:
    """Raises DataLossError (a damaged file), InvalidArgumentError (what no feature can hold), PermissionError_ and
    others of its files."""
    kinds = {IMAGES: _of_images, TAR: of_tar, PARQUET: _of_parquet, ARROW: _of_arrow}
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
            _check_is_end(path, source)
    except arrow.ArrowException as error:
        raise errors.DataLossError(f"{path}: {error}") from error


def _check_is_end(path: Path, source: Any) -> None:
    """pyarrow takes the end of the file for that of the stream, and what is behind that for nothing."""
    at, size_bytes = source.tell(), source.size()
    if at < size_bytes:
        raise errors.DataLossError(
            f"{path}: has something at byte {at}, behind its end: damaged, or several streams in one file"
        )
    source.seek(0)
    if source.read(4) != _ARROW_END[:4]:  # as Arrow wrote until 2019: an end of four zero bytes, as records may have
        return
    source.seek(max(0, size_bytes - len(_ARROW_END)))
    if source.read(len(_ARROW_END)) != _ARROW_END:
        raise errors.DataLossError(
            f"{path}: cut off at byte {size_bytes}: a stream ends with ff ff ff ff 00 00 00 00; fetch it again, or "
            "save the data set again"
        )


def _rows(path: Path, batch: Any) -> Iterator[bytes]:
    names = batch.schema.names
    for name in names if len(set(names)) < len(names) else ():
        if names.count(name) > 1:
            raise errors.InvalidArgumentError(f"{path}: has {names.count(name)} columns {name!r}, which must be one")
    try:
        rows = batch.to_pylist()
    except (ValueError, OverflowError) as error:
        if "duplicate field names" in str(error):
            raise errors.InvalidArgumentError(f"{path}: a struct has two fields of one name") from error
        raise _column_refused(path, batch, error) from error
    for row in rows:
        features: dict[str, Value] = {}
        for name, value in row.items():
            _put(path, name, value, features)
        yield serialized(features)


def _column_refused(path: Path, batch: Any, error: Exception) -> errors.TfquiverError:
    """Of values that Python has no place for: text that is no UTF-8, a date in the year 100 000."""
    for name in batch.schema.names:
        try:
            batch.column(name).to_pylist()
        except UnicodeDecodeError:
            return errors.DataLossError(f"{path}: column {name!r} has text that is not UTF-8: {error}")
        except (ValueError, OverflowError):
            break
    return errors.InvalidArgumentError(f"{path}: column {name!r} has a value that cannot be read: {error}")


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
