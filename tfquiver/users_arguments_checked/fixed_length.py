"""`parse=tfquiver.FixedLength(...)`: records whose bytes are numbers."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfquiver import errors

_MOST_VALUES = 1 << 32
_MOST_DIMENSIONS = 253  # of a tensor 254, one of which is the batch


@dataclass(frozen=True, slots=True)
class FixedLength:
    """So many numbers of one type, which stand in a record as they are: what `tf.io.decode_raw` reads.

    `tfquiver.dataset(..., batch_size=, parse=tfquiver.FixedLength([32, 32, 3], tf.uint8))` gives tensors of shape
    [batch, 32, 32, 3]. A mapping, `parse={"label": FixedLength([], tf.uint8), "image": ...}`, is of fields that stand
    one after the other in every record, in the mapping's order, and gives dicts.

    Args:
      shape: of the numbers in one record, at least one; [] is a single number.
      dtype: a `tf.DType`, its name, or NumPy's; one that `tf.io.decode_raw` takes.
      little_endian: the order of the bytes of each number.

    Raises InvalidArgumentError naming what cannot be right. A record of any other length is the iterator's
    `tf.errors.InvalidArgumentError`: it is neither cut nor padded.
    """

    shape: Sequence[int]
    dtype: Any
    little_endian: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.shape, str | bytes):
            raise self._wrong("shape", "must be a sequence of positive integers")
        try:
            shape = tuple(self.shape)
        except (TypeError, ValueError) as error:
            raise self._wrong("shape", "must be a sequence of positive integers") from error
        whole = all(isinstance(one, numbers.Integral) and not isinstance(one, bool) and one > 0 for one in shape)
        if not whole or math.prod(map(int, shape)) > _MOST_VALUES:
            raise self._wrong("shape", f"must be a sequence of positive integers, of at most {_MOST_VALUES} values")
        if len(shape) > _MOST_DIMENSIONS:
            raise self._wrong("shape", f"has {len(shape)} dimensions: at most {_MOST_DIMENSIONS}")
        object.__setattr__(self, "shape", tuple(map(int, shape)))
        if not isinstance(self.little_endian, bool):
            raise self._wrong("little_endian", "must be True or False")

    @property
    def values(self) -> int:
        """In one record."""
        return math.prod(self.shape)

    def _wrong(self, name: str, what: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(f"FixedLength: {name}={getattr(self, name)!r}: {what}")
