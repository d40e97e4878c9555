"""What a traced function is known by: its graph, what it captures, its elements, a version, TensorFlow's."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tfquiver import errors
from tfquiver.materializing.elements_as_records.element_layout import VERSION
from tfquiver.materializing.function_fingerprints.graph_hash import GraphHash
from tfquiver.materializing.function_fingerprints.traced import Traced

RANDOM_HINT = (
    "use tf.random.stateless_* or tf.image.stateless_random_*, whose seed a function gets as its second argument with "
    "allow_random=N, or do this behind materialize"
)


def fingerprint(traced: Traced, version: str) -> bytes:
    """Raises InvalidArgumentError: what it computes cannot be told; names why."""
    import tensorflow as tf

    function = traced.concrete
    names = {id(one.handle): f"variable {one.name!r}" for one in function.graph.variables}
    captures = [_capture(tensor, traced.name, names.get(id(tensor), "a tensor")) for tensor in function.captured_inputs]
    graph = function.graph
    definition = graph.as_graph_def()
    library = {one.signature.name: one for one in definition.library.function}
    hashed = GraphHash(library, RANDOM_HINT, bool(version))
    inner = hashed.of_graph(
        definition.node,
        [tensor.op.name for tensor in graph.inputs],
        [tensor.name for tensor in graph.outputs],
    )
    parts = [
        b"tfquiver function\0", inner, repr(traced.spec).encode(), version.encode(), str(VERSION).encode(),
        ".".join(tf.__version__.split(".")[:2]).encode(), b"seeded" if traced.seeded else b"",
        *captures,
    ]  # fmt: skip
    hash = hashlib.sha256()
    for part in parts:
        hash.update(len(part).to_bytes(8, "little") + part)
    return hash.digest()


def _capture(tensor: Any, name: str, what: str) -> bytes:
    import tensorflow as tf

    if tensor.dtype in (tf.resource, tf.variant) or not hasattr(tensor, "numpy"):
        raise errors.InvalidArgumentError(
            f"fn {name} captures {what} of {tensor.dtype.name}: a variable, table "
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
