"""The user's function: traced, known by a fingerprint, applied to all the records of a shard."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfquiver import errors
from tfquiver.derived.element_layout import VERSION, ElementLayout
from tfquiver.derived.graph_hash import GraphHash

_HINT = (
    "use tf.random.stateless_* or tf.image.stateless_random_*, whose seed a function gets as its second argument with "
    "allow_random=N, or do this behind materialize"
)


class Function:
    """Args:
    fn: record (string scalar) -> element; with `seeded`, (record, seed int64 [2]) -> element.
    version: what the user says beside what the graph says.

    Raises InvalidArgumentError: it cannot be traced, or what it computes cannot be told; names why.
    """

    def __init__(self, fn: Callable[..., Any], version: str, seeded: bool) -> None:
        import tensorflow as tf

        self._fn, self._seeded, self._lock = fn, seeded, threading.Lock()
        self.name = getattr(fn, "__name__", type(fn).__name__)
        one = tf.data.Dataset.from_tensors(tf.constant(b""))
        if seeded:
            one = one.map(lambda record: (record, tf.zeros([2], tf.int64)))
        try:
            mapped, again = one.map(fn), one.map(fn)
        except errors.TfquiverError:
            raise
        except Exception as error:
            takes = "a record and a seed" if seeded else "a record"
            raise errors.InvalidArgumentError(
                f"fn {self.name} cannot be traced with {takes}: {type(error).__name__}: {error}"
            ) from error
        self.layout = ElementLayout(mapped.element_spec)
        self.fingerprint = _fingerprint(mapped, version, seeded, self.name)
        # What computes is traced once more: it would be another function than the one that is known.
        if self.fingerprint != _fingerprint(again, version, seeded, self.name):
            raise errors.InvalidArgumentError(
                f"fn {self.name} is another each time it is traced: something of Python's in it (random, numpy.random, "
                f"a clock, a counter) becomes a constant of the graph; {_HINT}"
            )
        self._applied = tf.function(self._all, autograph=False).get_concrete_function(
            tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.int64)
        )

    def apply(self, records: Sequence[bytes], seed: int) -> list[bytes]:
        """What each record has become, in order. `seed`: of all of them together. Thread-safe.

        Raises what TensorFlow raises, as InvalidArgumentError.
        """
        import tensorflow as tf

        try:
            made = self._applied(tf.constant(list(records), tf.string, [len(records)]), tf.constant(seed, tf.int64))
        except tf.errors.OpError as error:
            raise errors.InvalidArgumentError(f"fn {self.name}: {error.message}") from error
        found: list[bytes] = made.numpy().tolist()
        return found

    def _all(self, records: Any, seed: Any) -> Any:
        import tensorflow as tf

        data = tf.data.Dataset.from_tensor_slices(records)
        if self._seeded:
            data = data.enumerate().map(lambda index, record: (record, tf.stack([seed, index])))
        layout, many = self.layout, os.cpu_count() or 1

        def encoded(*parts: Any) -> Any:
            return layout.encode(parts if type(layout.spec) is tuple else parts[0])

        data = data.map(self._fn, num_parallel_calls=many, deterministic=True)
        data = data.map(encoded, num_parallel_calls=many, deterministic=True)
        return data.batch(tf.size(records, tf.int64)).get_single_element()


def _fingerprint(mapped: Any, version: str, seeded: bool, name: str) -> bytes:
    import tensorflow as tf

    function = mapped._functions()[0].function
    captures = [_capture(tensor, name) for tensor in function.captured_inputs]
    graph = function.graph
    definition = graph.as_graph_def()
    library = {one.signature.name: one for one in definition.library.function}
    hashed = GraphHash(library, _HINT)
    inner = hashed.of_graph(
        definition.node,
        [tensor.op.name for tensor in graph.inputs],
        [tensor.name for tensor in graph.outputs],
    )
    parts = [
        b"tfquiver function\0", inner, repr(mapped.element_spec).encode(), version.encode(), str(VERSION).encode(),
        ".".join(tf.__version__.split(".")[:2]).encode(), b"seeded" if seeded else b"",
        *captures,
    ]  # fmt: skip
    hash = hashlib.sha256()
    for part in parts:
        hash.update(len(part).to_bytes(8, "little") + part)
    return hash.digest()


def _capture(tensor: Any, name: str) -> bytes:
    import tensorflow as tf

    if tensor.dtype in (tf.resource, tf.variant) or not hasattr(tensor, "numpy"):
        raise errors.InvalidArgumentError(
            f"fn {name} captures {getattr(tensor, 'name', '') or 'a tensor'} of {tensor.dtype.name}: a variable, table "
            "or other thing with a state, of which nobody else could know what it was. Capture its value (a tensor or "
            "an array), or do this behind materialize"
        )
    value = tensor.numpy()
    hash = hashlib.sha256(f"{tensor.dtype.name} {tensor.shape}".encode())
    if tensor.dtype == tf.string:
        for one in np.asarray(value, object).reshape(-1):
            hash.update(len(one).to_bytes(8, "little") + one)
    else:
        hash.update(np.ascontiguousarray(value).tobytes())
    return hash.digest()
