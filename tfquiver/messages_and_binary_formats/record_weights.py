"""A weight for each record of a data set, in stored order: bytes to values and back (docs/format/weights.md).

Bound to the data by its content root: weights of other data, or of the same data in another order, are refused. Every
byte is covered by the header's checksum, or by the hash in it. Pure but for opening a file.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

MAGIC, VERSION = b"TFQW", 1
MOST_RECORDS = 1 << 28  # 1 GiB
_HEADER = struct.Struct("<4sIQ32s32s")  # magic, version, records, content root, SHA-256 of the weights
_CRC = struct.Struct("<I")  # of the header
HEADER_BYTES = 96  # zeros to there
MOST_BYTES = HEADER_BYTES + 4 * MOST_RECORDS
Values = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RecordWeights:
    """`values`: float32, shape [records], each finite and 0 or more, some more; not to be changed."""

    content_root: bytes
    values: Values
    weights_id: bytes  # 32 bytes; names data and weights

    def to_bytes(self) -> bytes:
        return _header(self.content_root, self.values) + self.values.tobytes()


def record_weights(content_root: bytes, values: Values) -> RecordWeights:
    """`values`: as `checked_values` gives them."""
    return RecordWeights(content_root, values, _id(_header(content_root, values)))


def checked_values(name: str, given: npt.ArrayLike) -> Values:
    """Weights of records as users give them: numbers, one after the other. Raises InvalidArgumentError naming the first
    that is wrong."""
    array = np.asarray(given)
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise errors.InvalidArgumentError(
            f"{name}: {array.dtype} of shape {list(array.shape)}; it must be numbers of shape [records]"
        )
    if not 0 < len(array) <= MOST_RECORDS:
        raise errors.InvalidArgumentError(
            f"{name}: {many(len(array), 'weight')}; there can be from 1 to {MOST_RECORDS}"
        )
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is found
        values = np.ascontiguousarray(array, "<f4")
    if values is given or values.base is not None:
        values = values.copy()  # whoever gave it may write to it
    if (wrong := first_wrong(values)) is not None:
        raise errors.InvalidArgumentError(f"{name}[{wrong}]={array[wrong]}: must be finite as float32, and 0 or more")
    if not values.any():
        raise errors.InvalidArgumentError(f"{name}: at least one must be above 0, as float32")
    values.flags.writeable = False
    return values


def first_wrong(values: Values) -> int | None:
    """Place of the first that is no weight."""
    for at in range(0, len(values), 1 << 20):
        part = values[at : at + (1 << 20)]
        right = np.isfinite(part) & (part >= 0)
        if not right.all():
            return at + int(np.argmin(right))
    return None


def opened(path: Path, weights_id: bytes = b"") -> RecordWeights:
    """Of a file, in memory: of a mapped one a disk that fails would end the process. Raises DataLossError naming file
    and damage, also where it holds others than `weights_id` names; NotFoundError and others."""
    try:
        size_bytes = path.stat().st_size
        if size_bytes > MOST_BYTES:
            raise _damaged(str(path), f"{of_bytes(size_bytes)}; the limit is {of_bytes(MOST_BYTES)}")
        data = path.read_bytes()
    except OSError as error:
        raise errors.from_os_error(error, str(path)) from error
    weights = decoded(np.frombuffer(data, np.uint8), str(path))
    if weights_id not in (b"", weights.weights_id):
        raise _damaged(str(path), f"it holds weights {weights.weights_id.hex()}")
    return weights


def decoded(buffer: npt.NDArray[np.uint8], where: str) -> RecordWeights:
    """Checks every byte of `buffer`, of which the values are a view. Raises DataLossError naming what is damaged."""
    header = read_header(buffer[:HEADER_BYTES].tobytes(), where)
    if len(buffer) != header.all_bytes:
        raise _damaged(where, f"{many(len(buffer), 'byte')} for {many(header.records, 'record')}")
    values = buffer[HEADER_BYTES:].view("<f4")
    if hashlib.sha256(values.data).digest() != header.hashed:
        raise _damaged(where, "its weights do not have their hash")
    if (wrong := first_wrong(values)) is not None or not values.any():
        raise _damaged(where, "all weights are 0" if wrong is None else f"weight {wrong} is {values[wrong]}")
    values.flags.writeable = False
    return RecordWeights(header.content_root, values, header.weights_id)


class Header(NamedTuple):
    """What the first bytes say of the others, which need not be true before these are there."""

    records: int
    content_root: bytes
    hashed: bytes
    weights_id: bytes

    @property
    def all_bytes(self) -> int:
        return HEADER_BYTES + 4 * self.records


def read_header(header: bytes, where: str) -> Header:
    """Raises DataLossError naming what is damaged."""
    if len(header) < HEADER_BYTES or header[:4] != MAGIC:
        raise _damaged(where, "not a file of weights")
    _, version, records, content_root, hashed = _HEADER.unpack_from(header)
    if version != VERSION:
        raise _damaged(where, f"version {version}; this is tfquiver's {VERSION}")
    if header != _header_of(header[: _HEADER.size]):
        raise _damaged(where, "its header is damaged")
    if not 0 < records <= MOST_RECORDS:
        raise _damaged(where, f"it is of {records} records")
    return Header(records, content_root, hashed, _id(header))


def _header(content_root: bytes, values: Values) -> bytes:
    hashed = hashlib.sha256(values.data).digest()
    return _header_of(_HEADER.pack(MAGIC, VERSION, len(values), content_root, hashed))


def _header_of(fields: bytes) -> bytes:
    return (fields + _CRC.pack(google_crc32c.value(fields))).ljust(HEADER_BYTES, b"\0")


def _id(header: bytes) -> bytes:
    return hashlib.sha256(header).digest()


def _damaged(where: str, what: str) -> errors.DataLossError:
    return errors.DataLossError(f"{where}: {what}; make it again (tfquiver digest weights)")
