"""What Arrow's arrays become when their values are taken out, counted before they are: a dictionary's value, a view, a
run may stand for many. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

_OTHERWISE_BYTES = 8
_VIEW_WORDS = 4  # of 32 bits; the first is the value's length


def expanded_bytes(array: Any) -> int:
    """Of text and bytes exactly, of numbers as they are in memory, of what is seldom at most."""
    from pyarrow import compute, types

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
        return _sum(array.sizes) * _at_most_each(array.values)
    if types.is_run_end_encoded(kind):
        return len(array) * _at_most_each(array.values)
    if types.is_binary_view(kind) or types.is_string_view(kind):
        words = np.frombuffer(array.buffers()[1], np.int32)[_VIEW_WORDS * array.offset :: _VIEW_WORDS]
        return int(words[: len(array)].sum(dtype=np.int64))
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

    if not _is_text(array.dictionary.type):
        there: int = len(array) - array.null_count
        return there * _at_most_each(array.dictionary)
    return _sum(compute.take(compute.binary_length(array.dictionary), array.indices))


def _at_most_each(array: Any) -> int:
    from pyarrow import compute, types

    if types.is_primitive(array.type):
        return _OTHERWISE_BYTES
    most: int = compute.max(compute.binary_length(array)).as_py() if _is_text(array.type) else expanded_bytes(array)
    return most or 0


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_binary(kind) or types.is_string(kind) or types.is_large_binary(kind) or types.is_large_string(kind)
    )
