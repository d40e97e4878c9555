"""Weights of records as users give them: an array, or a file of them."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tfquiver import errors, named_files
from tfquiver.messages_and_binary_formats import record_weights
from tfquiver.messages_and_binary_formats.record_weights import RecordWeights, Values
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

_NPY, _TFQW = b"\x93NUMPY", record_weights.MAGIC
_MOST_FILE_BYTES = 8 * record_weights.MOST_RECORDS + (64 << 10)  # float64, and the header


@dataclass(frozen=True, eq=False)
class UserWeights:
    """`values`: checked. `content_root`: of the data that they are of; empty: whatever has so many records."""

    where: str
    values: Values
    content_root: bytes = b""

    @cached_property
    def hashed(self) -> str:
        return hashlib.sha256(self.values.data).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserWeights) and (self.hashed, self.content_root) == (other.hashed, other.content_root)

    def __hash__(self) -> int:
        return hash(self.hashed)

    def __repr__(self) -> str:
        return f"<{many(len(self.values), 'weight')} of records>"

    def of(self, name: str, content_root: bytes, records: int) -> RecordWeights:
        """Those of the data set of this name. Raises InvalidArgumentError: they are of another."""
        if len(self.values) != records:
            raise errors.InvalidArgumentError(
                f"{self.where}: {many(len(self.values), 'weight')}; data set {name!r} has {many(records, 'record')}"
            )
        if self.content_root not in (b"", content_root):
            raise errors.InvalidArgumentError(f"{self.where}: weights of other data than data set {name!r} has")
        return record_weights.record_weights(content_root, self.values)


def user_weights(name: str, given: Any) -> UserWeights | None:
    """None: neither an array nor a file. Raises InvalidArgumentError, DataLossError, NotFoundError and others."""
    if isinstance(given, UserWeights):
        return given
    if isinstance(given, np.ndarray):
        return UserWeights(name, record_weights.checked_values(name, given))
    if isinstance(given, str | os.PathLike):
        where = os.fspath(given)
        return _of_file(f"{name}={where!r}", _read(f"{name}={where!r}", where))
    return None


def _of_file(where: str, data: bytes) -> UserWeights:
    if data.startswith(_TFQW):
        weights = record_weights.decoded(np.frombuffer(data, np.uint8), where)
        return UserWeights(where, weights.values, weights.content_root)
    if data.startswith(_NPY):
        try:
            values = np.load(io.BytesIO(data), allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise errors.DataLossError(f"{where}: no .npy file of numbers: {error}") from error
    elif len(data) % 4 == 0 and data:
        values = np.frombuffer(data, "<f4")
    else:
        raise errors.InvalidArgumentError(f"{where}: {len(data)} bytes: neither .npy, .tfqw nor raw float32")
    return UserWeights(where, record_weights.checked_values(where, values))


def _read(name: str, where: str) -> bytes:
    if "://" in where:
        raise errors.InvalidArgumentError(f"{name}: give a file of this machine, or the weights as an array")
    try:
        size_bytes = Path(where).stat().st_size
        if size_bytes > _MOST_FILE_BYTES:
            raise errors.InvalidArgumentError(
                f"{name}: {of_bytes(size_bytes)}; the limit is {of_bytes(_MOST_FILE_BYTES)}"
            )
        return Path(where).read_bytes()
    except OSError as error:
        raise named_files.not_read(error, name, where) from error
    except ValueError as error:  # a zero in it
        raise errors.InvalidArgumentError(f"{name}: {error}") from error
