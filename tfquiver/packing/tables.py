"""The rows of Parquet and Arrow files. However much of them a few bytes of a file stand for (packed pages, values that
are there once for many rows), so many are unpacked at a time as are about 64 MiB, or one that is not too large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.packing.example import MOST_RECORD_BYTES, Value, serialized
from tfquiver.packing.expanded import expanded_bytes
from tfquiver.packing.parquet_pages import to_be_read
from tfquiver.packing.sources import Part

_ROWS = 256
_BATCH_BYTES = 64 << 20
_READ_BYTES = 1 << 20  # at a time, of each column
_ARROW_END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream of messages that each begin with its first four bytes


def of_parquet(part: Part) -> Iterator[bytes]:
    """Raises as examples.of_part does."""
    (path,) = part.files
    arrow = _pyarrow(path)
    from pyarrow.parquet import ParquetFile

    first = 0
    try:
        with path.open("rb") as headers, ParquetFile(path) as file:
            metadata = file.metadata
            _check_kinds(path, file.schema_arrow)
            for group in range(metadata.num_row_groups):
                rows, as_they_are = to_be_read(path, headers, metadata, group, _ROWS, _BATCH_BYTES)
                with ParquetFile(
                    path, metadata=metadata, read_dictionary=as_they_are, buffer_size=_READ_BYTES,
                    pre_buffer=False,  # else it reads the whole row group ahead
                ) as its:  # fmt: skip
                    for batch in its.iter_batches(rows, row_groups=[group]):
                        yield from _rows(path, batch, first)
                        first += batch.num_rows
    except arrow.ArrowException as error:
        raise errors.DataLossError(f"{path}: {error}") from error


def of_arrow(part: Part) -> Iterator[bytes]:
    """What `datasets` saves to a disk: a stream of record batches. Raises as examples.of_part does."""
    (path,) = part.files
    arrow = _pyarrow(path)
    first = 0
    try:
        with arrow.memory_map(str(path)) as source, arrow.ipc.open_stream(source) as batches:
            _check_kinds(path, batches.schema)
            for batch in batches:
                _check_is_sound(path, batch, arrow.ArrowInvalid)
                for at in range(0, batch.num_rows, _ROWS):
                    yield from _rows(path, batch.slice(at, _ROWS), first + at)
                first += batch.num_rows
            _check_is_end(path, source)
    except arrow.ArrowException as error:
        raise errors.DataLossError(f"{path}: {error}") from error


def _check_kinds(path: Path, schema: Any) -> None:
    for field in schema:
        if refused := _refused_kind(field.type):
            raise errors.InvalidArgumentError(
                f"{path}: column {field.name!r} has a {refused}; features hold bytes, text, numbers, and lists of them"
            )


def _refused_kind(kind: Any) -> str:
    """What in a column's type no feature holds and nothing here counts, if anything."""
    from pyarrow import types

    if types.is_map(kind):
        return "map"
    if types.is_union(kind):
        return "union"
    if hasattr(kind, "storage_type"):  # that somebody has added
        return _refused_kind(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _refused_kind(kind.value_type)
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return next(filter(None, map(_refused_kind, inner)), "")


def _check_is_sound(path: Path, batch: Any, invalid: type[Exception]) -> None:
    """Offsets of a file are believed by what reads them: it would read beyond its end."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except invalid as error:
            what = "has text that is not UTF-8" if "UTF8" in str(error) else "is damaged"
            raise errors.DataLossError(f"{path}: column {name!r} {what}: {error}") from error


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


def _rows(path: Path, batch: Any, first: int) -> Iterator[bytes]:
    """Args: first: the number of the batch's first row in the file."""
    names = batch.schema.names
    for name in names if len(set(names)) < len(names) else ():
        if names.count(name) > 1:
            raise errors.InvalidArgumentError(f"{path}: has {names.count(name)} columns {name!r}, which must be one")
    for at, few in _few_at_a_time(path, batch, first):
        for number, row in enumerate(_values(path, few), at):
            features: dict[str, Value] = {}
            for name, value in row.items():
                _put(path, name, value, features)
            record = serialized(features)
            _check_size(path, number, len(record))
            yield record


def _few_at_a_time(path: Path, batch: Any, first: int) -> Iterator[tuple[int, Any]]:
    """The batch in pieces that are not too large when they are expanded, each with the number of its first row."""
    size_bytes = sum(map(expanded_bytes, batch.columns))
    if batch.num_rows == 1:
        _check_size(path, first, size_bytes)
    elif size_bytes > _BATCH_BYTES:
        half = batch.num_rows // 2
        yield from _few_at_a_time(path, batch.slice(0, half), first)
        yield from _few_at_a_time(path, batch.slice(half), first + half)
        return
    yield first, batch


def _check_size(path: Path, row: int, size_bytes: int) -> None:
    if size_bytes > MOST_RECORD_BYTES:
        raise errors.InvalidArgumentError(f"{path}: row {row} (from 0) has {size_bytes} bytes; 1 GiB is the most")


def _values(path: Path, batch: Any) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except (ValueError, OverflowError) as error:
        if "duplicate field names" in str(error):
            raise errors.InvalidArgumentError(f"{path}: a struct has two fields of one name") from error
        raise _column_refused(path, batch, error) from error
    return rows


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
