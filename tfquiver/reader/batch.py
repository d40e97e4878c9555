"""Some records, in memory that the reader library has given away: read-only, free when nobody looks at it any more."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from tfquiver.sizes_durations_amounts.amounts import many


class TfqBatch(ctypes.Structure):
    """As in ops/reader_library_without_tensorflow/batch.h."""

    _fields_ = (
        ("records", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("contiguous", ctypes.c_int32),
        ("owner", ctypes.c_void_p),
    )


class Memory:
    """Owns what the library puts into `held`, which `free` frees."""

    __slots__ = ("_free", "held")

    def __init__(self, free: Callable[[int], None]) -> None:
        self.held, self._free = TfqBatch(), free

    def __del__(self) -> None:
        if self.held.owner:
            self._free(self.held.owner)


class _Span:
    """A piece of it, as NumPy takes memory without a copy."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: Memory, address: int, length: int, kind: str) -> None:
        self._memory = memory
        self.__array_interface__ = {"data": (address, True), "shape": (length,), "typestr": kind, "version": 3}


class Batch(Sequence[memoryview]):
    """The records of one draw; item i is record i, a read-only `memoryview` of its bytes.

    Nothing is copied: a view keeps the memory of the whole batch. `to_list` gives `bytes` of one's own.
    """

    __slots__ = ("_contiguous", "_data", "_memory", "_pointers", "offsets")

    def __init__(self, memory: Memory) -> None:
        held = memory.held
        self._memory, self._contiguous = memory, bool(held.contiguous)
        self.offsets: npt.NDArray[np.int64] = np.asarray(_Span(memory, held.offsets, held.records + 1, "<i8"))
        self._pointers: npt.NDArray[np.uint64] = np.asarray(_Span(memory, held.data, held.records, "<u8"))
        self._data: npt.NDArray[np.uint8] | None = None

    @property
    def nbytes(self) -> int:
        """Of all records."""
        return int(self.offsets[-1])

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """Shape [nbytes]: the records one after the other, record i from `offsets[i]` to `offsets[i + 1]`.

        A copy where large records lie apart, each as it was read; ask for a reader that is `contiguous` to avoid it.
        """
        if self._data is None:
            if self._contiguous or not len(self):
                self._data = np.asarray(_Span(self._memory, self._at(0), self.nbytes, "|u1"))
            else:
                self._data = self.copied()
                self._data.flags.writeable = False
        return self._data

    def copied(self) -> npt.NDArray[np.uint8]:
        """As `data`, in memory of its own that may be written to: one copy, however the records lie."""
        if self._contiguous or not len(self):
            return self.data.copy()
        return np.concatenate([np.frombuffer(record, np.uint8) for record in self])

    def to_list(self) -> list[bytes]:
        """Copies of the records."""
        ends = self.offsets.tolist()
        if self._contiguous and len(self):  # one copy of all, and slices of it: half the time for small records
            whole = ctypes.string_at(self._at(0), ends[-1])
            return [whole[begin:end] for begin, end in itertools.pairwise(ends)]
        lengths = np.diff(self.offsets).tolist()
        return [ctypes.string_at(at, length) for at, length in zip(self._pointers.tolist(), lengths, strict=True)]

    def __len__(self) -> int:
        return len(self._pointers)

    @overload
    def __getitem__(self, index: int) -> memoryview: ...
    @overload
    def __getitem__(self, index: slice) -> list[memoryview]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        length = int(self.offsets[number + 1] - self.offsets[number])
        return np.asarray(_Span(self._memory, self._at(number), length, "|u1")).data

    def __repr__(self) -> str:
        return f"Batch({many(len(self), 'record')}, {self.nbytes} bytes)"

    def _at(self, number: int) -> int:
        return int(self._pointers[number]) if len(self) else 0
