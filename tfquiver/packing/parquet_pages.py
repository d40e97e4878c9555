"""What the pages of a Parquet file unpack to, as their headers say it, before anything is unpacked.

Nothing is believed but what bounds the reader, too: it takes sizes and counts out of the same headers.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tfquiver import errors

MOST_UNPACKED_BYTES = 4 << 30
_MOST_VALUES = 1 << 28  # of a page: readers keep some bytes of each
_MOST_PAGES = 1 << 16  # of a column in a row group: some hundred bytes are kept of each
_MOST_HEADER_BYTES = 1 << 20
_MOST_DEPTH = 8
_I32, _STRUCT = 5, 12  # kinds of fields: Thrift's reader skips a field of another kind than it expects
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_DATA_HEADER, _DATA_2_HEADER = 5, 8  # fields of a page's header, and where in them the encoding is
_ENCODING_AT = {_DATA_HEADER: 2, _DATA_2_HEADER: 4}
_EACH_VALUE_IS_THERE = {0, 6}  # PLAIN, DELTA_LENGTH_BYTE_ARRAY
_OF_DICTIONARY = {2, 8}
_INDEX_BYTES = 4
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


@dataclass(frozen=True, slots=True)
class Page:
    """`each_bytes`, `all_bytes`: at most, of a value and of all of them."""

    values: int
    unpacked_bytes: int
    each_bytes: int
    all_bytes: int
    is_of_dictionary: bool


def to_be_read(
    path: Path, file: BinaryIO, metadata: Any, group: int, most_rows: int, most_bytes: int
) -> tuple[int, list[str]]:
    """How many rows of a row group are at most about `most_bytes`, or what its largest pages are (of lists it is known
    on average only), and which columns are read without taking the dictionary's values out.

    Args: metadata: pyarrow's of the file. Raises DataLossError, InvalidArgumentError: it cannot be read in bounded
    memory; OSError.
    """
    its = metadata.row_group(group)
    flat, left_as_they_are = list[list[Page]](), list[str]()
    each_row_bytes, at_once_bytes = 0, 0
    for number in range(its.num_columns):
        column, leaf = its.column(number), metadata.schema.column(number)
        what = f"{path}: column {leaf.path!r}: row group {group}"
        dictionary_bytes, pages = _pages(what, file, column, _width_bytes(leaf))
        at_once_bytes += dictionary_bytes + max((page.unpacked_bytes for page in pages), default=0)
        if at_once_bytes > MOST_UNPACKED_BYTES:
            raise errors.InvalidArgumentError(
                f"{what}: its pages unpack to {at_once_bytes} bytes at a time; {MOST_UNPACKED_BYTES} is the most: "
                "write it again with smaller pages"
            )
        if dictionary_bytes and not _width_bytes(leaf) and all(page.is_of_dictionary for page in pages):
            left_as_they_are.append(leaf.path)
            each_row_bytes += sum(page.values for page in pages) * _INDEX_BYTES // max(1, its.num_rows)
        elif not leaf.max_repetition_level:
            flat.append(pages)
        else:
            each_row_bytes += sum(page.all_bytes for page in pages) // max(1, its.num_rows)
    rows, most_bytes = most_rows, max(most_bytes, at_once_bytes)  # of large pages there is as much in any case
    while rows > 1 and rows * each_row_bytes + sum(bytes_of_rows(pages, rows) for pages in flat) > most_bytes:
        rows //= 2
    return rows, left_as_they_are


def _width_bytes(leaf: Any) -> int:
    """0: each value has its own."""
    return int(leaf.length) if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(leaf.physical_type, 0)


def bytes_of_rows(pages: Sequence[Page], rows: int) -> int:
    """At most, of so many rows that follow one another, wherever they begin. A page may be of one value, and rows are
    hundreds: pages between the first and the last are summed up once for all."""
    if not pages:
        return 0
    each = np.array([page.each_bytes for page in pages], np.int64)
    every = np.array([min(page.all_bytes, rows * page.each_bytes) for page in pages], np.int64)
    values, whole = (np.concatenate([[0], np.cumsum(of)]) for of in ([page.values for page in pages], every))
    second = np.arange(1, len(pages) + 1)  # they begin with the last value of the page before it
    until = values[second] + rows - 1
    last = np.searchsorted(values, until, "right") - 1
    more = np.minimum(np.append(every, 0)[last], (until - values[last]) * np.append(each, 0)[last])
    return int((every + whole[last] - whole[second] + more).max())


def _pages(what: str, file: BinaryIO, column: Any, width_bytes: int) -> tuple[int, list[Page]]:
    """How large its dictionary is, and its pages."""
    at = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
        at = column.dictionary_page_offset
    end, values, dictionary_bytes, pages = at + column.total_compressed_size, 0, 0, list[Page]()
    seen = 0
    while values < column.num_values and at < end:  # as readers do
        seen += 1
        if seen > _MOST_PAGES:
            raise errors.InvalidArgumentError(
                f"{what}: has more than {_MOST_PAGES} pages: write it again with larger pages"
            )
        header, header_bytes = page_header(what, file, at)
        kind, unpacked_bytes, packed_bytes = (_amount(header.get(field)) for field in (1, 2, 3))
        if min(kind, unpacked_bytes, packed_bytes) < 0:
            raise errors.DataLossError(f"{what}: damaged at byte {at}: that is no page")
        if kind == _DICTIONARY:
            dictionary_bytes = max(dictionary_bytes, unpacked_bytes)
        elif kind in (_DATA, _DATA_2):
            page = _page(what, at, header, unpacked_bytes, dictionary_bytes, width_bytes)
            values += page.values
            pages += [page] if page.values else []
        at += header_bytes + packed_bytes
    return dictionary_bytes, pages


def _page(what: str, at: int, header: Any, unpacked_bytes: int, dictionary_bytes: int, width_bytes: int) -> Page:
    field = _DATA_HEADER if header[1] == _DATA else _DATA_2_HEADER
    its = header.get(field)
    if not isinstance(its, dict):
        its = {}
    values, encoding = _amount(its.get(1)), _amount(its.get(_ENCODING_AT[field]))
    if min(values, encoding) < 0:
        raise errors.DataLossError(f"{what}: damaged at byte {at}: that is no page of data")
    if values > _MOST_VALUES:
        raise errors.InvalidArgumentError(f"{what}: a page of {values} values; {_MOST_VALUES} is the most")
    if width_bytes > 0:
        return Page(values, unpacked_bytes, width_bytes, values * width_bytes, encoding in _OF_DICTIONARY)
    each = dictionary_bytes if encoding in _OF_DICTIONARY else unpacked_bytes
    every = unpacked_bytes if encoding in _EACH_VALUE_IS_THERE else values * each
    return Page(values, unpacked_bytes, each, every, encoding in _OF_DICTIONARY)


def _amount(value: Any) -> int:
    return value if isinstance(value, int) else -1


def page_header(what: str, file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """A struct of Thrift's compact protocol: its fields of 32 bits and structs by number, and how many bytes it has."""
    for wanted_bytes in (256, _MOST_HEADER_BYTES):
        file.seek(at)
        data = io.BytesIO(file.read(wanted_bytes))
        try:
            return _struct(data, 0), data.tell()
        except EOFError:
            continue
        except ValueError:
            break
    raise errors.DataLossError(f"{what}: damaged at byte {at}: that is no page's header")


def _struct(data: io.BytesIO, depth: int) -> dict[int, Any]:
    if depth > _MOST_DEPTH:
        raise ValueError
    fields: dict[int, Any] = {}
    number = 0
    while head := _byte(data):
        number = number + (head >> 4) if head >> 4 else _zigzag(_varint(data))
        if not -1 << 15 <= number < 1 << 15:  # Thrift's reader would take it for another number
            raise ValueError
        value = _value(data, head & 15, depth)
        if head & 15 in (_I32, _STRUCT):
            fields[number] = value
    return fields


def _value(data: io.BytesIO, kind: int, depth: int) -> Any:
    if depth > _MOST_DEPTH:  # of lists in lists, as of structs
        raise ValueError
    match kind:
        case 1 | 2:
            return kind == 1
        case 3:
            return _byte(data)
        case 4 | 6:
            return _varint(data)
        case 5:
            if (value := _varint(data)) >> 32:  # Thrift's reader would take it for another value
                raise ValueError
            return _zigzag(value)
        case 7:
            return _passed(data, 8)
        case 8:
            return _passed(data, _varint(data))
        case 9 | 10:
            head = _byte(data)
            count = head >> 4 if head >> 4 < 15 else _varint(data)
            return sum(1 for _ in _elements(data, head & 15, count, depth))
        case 12:
            return _struct(data, depth + 1)
    raise ValueError


def _elements(data: io.BytesIO, kind: int, count: int, depth: int) -> Iterator[Any]:
    for _ in range(count):
        yield _byte(data) if kind in (1, 2) else _value(data, kind, depth + 1)


def _passed(data: io.BytesIO, size_bytes: int) -> None:
    if size_bytes > _MOST_HEADER_BYTES:
        raise ValueError
    if len(data.read(size_bytes)) < size_bytes:
        raise EOFError


def _byte(data: io.BytesIO) -> int:
    if not (one := data.read(1)):
        raise EOFError
    return one[0]


def _varint(data: io.BytesIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(data)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError


def _zigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)
