"""What Arrow's arrays become when their values are taken out, counted before they are: a dictionary's value, a view, a
run may stand for many. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_OTHERWISE_BYTES = 8
_VIEW_WORDS = 4  # of 32 bits; the first is the value's length


def expanded_bytes(array: Any) -> int:
    """Of text and bytes exactly, of numbers as they are in memory, of what is seldom at most; of one row of that
    exactly, too, unless there are many such within it."""
    from pyarrow import compute, types

    if not len(array):  # it may have no buffers
        return 0
    kind = array.type
    if hasattr(array, "storage"):  # of a type that somebody has added
        return expanded_bytes(array.storage)
    if types.is_dictionary(kind):
        return _of_dictionary(array)
    if types.is_struct(kind):
        return sum(map(expanded_bytes, array.flatten()))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return expanded_bytes(array.flatten())
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return _of_list_views(array)
    if types.is_run_end_encoded(kind):
        first, count = array.find_physical_offset(), array.find_physical_length()
        return len(array) * _at_most_each(array.values.slice(first, count))
    if _is_view(kind):
        return int(_view_lengths(array).sum(dtype=np.int64))
    if _is_text(kind):
        return _sum(compute.binary_length(array))
    size_bytes: int = array.nbytes
    return size_bytes


def _sum(numbers: Any) -> int:
    from pyarrow import compute

    total: int | None = compute.sum(numbers).as_py()
    return total or 0


def _of_dictionary(array: Any) -> int:
    from pyarrow import compute

    there: int = len(array) - array.null_count
    if not there:
        return 0
    if _is_view(array.dictionary.type):
        return int(_view_lengths(array.dictionary)[np.asarray(array.indices.drop_null())].sum(dtype=np.int64))
    if not _is_text(array.dictionary.type):
        if len(array) == 1:
            return expanded_bytes(array.dictionary.slice(array.indices[0].as_py(), 1))
        return there * _at_most_each(array.dictionary)
    return _sum(compute.take(compute.binary_length(array.dictionary), array.indices))


def _of_list_views(array: Any) -> int:
    """Lists may stand anywhere among the values: what is between them is not theirs."""
    valid = np.asarray(array.is_valid())
    begins, sizes = (np.asarray(of, np.int64)[valid] for of in (array.offsets, array.sizes))
    begins, sizes, values = begins[sizes > 0], sizes[sizes > 0], array.values
    if not len(sizes):
        return 0
    if _is_text(values.type):
        offsets = _offsets(values)
        return int((offsets[begins + sizes] - offsets[begins]).sum(dtype=np.int64))
    order = np.argsort(begins)
    begins, ends = begins[order], (begins + sizes)[order]
    if (ends[:-1] > begins[1:]).any():  # values are in several lists
        return int(sizes.sum()) * _at_most_each(values.slice(begins[0], ends.max() - begins[0]))
    apart = np.flatnonzero(ends[:-1] < begins[1:])
    runs = zip(begins[np.append(0, apart + 1)], ends[np.append(apart, len(ends) - 1)], strict=True)
    return sum(expanded_bytes(values.slice(begin, end - begin)) for begin, end in runs)


def _offsets(array: Any) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
    from pyarrow import types

    begins = array.buffers()[1]
    if types.is_large_string(array.type) or types.is_large_binary(array.type):
        return np.frombuffer(begins, np.int64)[array.offset :]
    return np.frombuffer(begins, np.int32)[array.offset :]


def _view_lengths(array: Any) -> Any:
    if not len(array):
        return np.zeros(0, np.int32)
    words = np.frombuffer(array.buffers()[1], np.int32)[_VIEW_WORDS * array.offset :: _VIEW_WORDS][: len(array)]
    return np.where(np.asarray(array.is_valid()), words, 0)


def _at_most_each(array: Any) -> int:
    from pyarrow import compute, types

    if types.is_primitive(array.type):
        return _OTHERWISE_BYTES
    most: int = compute.max(compute.binary_length(array)).as_py() if _is_text(array.type) else expanded_bytes(array)
    return most or 0


def _is_view(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_binary_view(kind) or types.is_string_view(kind))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_binary(kind) or types.is_string(kind) or types.is_large_binary(kind) or types.is_large_string(kind)
    )
