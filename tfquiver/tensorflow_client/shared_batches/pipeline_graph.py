"""What a pipeline computes, told by its graph: the same in every process that runs the same script. Pure but for
TensorFlow's own description of its ops.

What does not change a batch is left out: names, how many threads and how far ahead, what is printed and asserted. What
the graph does not tell (a Python function, a table, a variable) is the same for all: batches are compared, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# As the ops that they are beside how they run.
_AS = {
    "ParallelMapDataset": "MapDataset", "ParallelMapDatasetV2": "MapDataset", "ParallelBatchDataset": "BatchDatasetV2",
    "ParallelInterleaveDatasetV4": "InterleaveDataset",
}  # fmt: skip
_PASSES_ON = frozenset({"PrefetchDataset", "OptionsDataset", "ModelDataset", "MaxIntraOpParallelismDataset",
                        "PrivateThreadPoolDataset", "Identity", "_Retval"})  # fmt: skip
# Inputs of data sets; of the source: its data and order are compared by themselves.
_HOW_INPUTS = frozenset({"num_parallel_calls", "prefetch_input_elements", "buffer_output_elements", "filename", "cache",
                         "digest_id", "session_key", "options"})  # fmt: skip
_HOW_ATTRIBUTES = frozenset(
    {"config", "config_proto", "executor_type", "shared_name", "container", "metadata", "token", "is_async", "name",
     "use_inter_op_parallelism", "use_unbounded_threadpool", "force_synchronous", "parallel_copy", "deterministic",
     "preserve_cardinality", "sloppy"}
)  # fmt: skip
_MOST_DEPTH = 64


class PipelineGraph:
    """Args:
    nodes: NodeDefs of the graph whose result is a data set; functions: name -> FunctionDef, of its library.
    input_names: of an op's inputs, in order, as many as the node has; or fewer.
    """

    def __init__(self, nodes: Iterable[Any], functions: Mapping[str, Any], input_names: Any) -> None:
        self._nodes, self._functions, self._input_names = list(nodes), functions, input_names

    def transformations(self) -> bytes:
        """Of ops and functions, whatever the constants."""
        return self._of_all(values=False)

    def all(self) -> bytes:
        """Of constants, too: batch sizes, seeds, what functions capture."""
        return self._of_all(values=True)

    def _of_all(self, values: bool) -> bytes:
        hashed = _Hashed(self._functions, self._input_names, values)
        results = [node.name for node in self._nodes if node.op == "_Retval"]
        return hashed.of(self._nodes, [], results)


class _Hashed:
    def __init__(self, functions: Mapping[str, Any], input_names: Any, values: bool) -> None:
        self._functions, self._input_names, self._values = functions, input_names, values
        self._known: dict[str, bytes] = {}
        self._inside: list[str] = []

    def of(self, nodes: Sequence[Any], arguments: Sequence[str], results: Sequence[str]) -> bytes:
        """Of what the results are made of: by the way from the arguments, not by the order in which it was said."""
        by_name = {node.name: node for node in nodes}
        made = {name: _hash(b"argument", str(at).encode()) for at, name in enumerate(arguments)}
        left = [name.partition(":")[0] for name in results]
        begun: set[str] = set()
        while left:  # not by recursion: graphs are thousands of nodes deep
            name = left[-1]
            if name in made or name not in by_name:
                left.pop()
                continue
            needs = [source for source, _ in self._inputs(by_name[name]) if source in by_name and source not in made]
            if needs and name not in begun:
                begun.add(name)
                left += needs
                continue
            made[name] = self._of_node(by_name[name], made)  # in a circle what is not there yet is left out
            left.pop()
        return _hash(*(made.get(name, b"") + port for name, port in map(_place, results)))

    def _inputs(self, node: Any) -> list[tuple[str, bytes]]:
        """What flows into it: the node, and which of its results."""
        given = [_place(one) for one in node.input if not one.startswith("^")]
        if node.op in _PASSES_ON:
            return given[:1]
        if "Dataset" not in node.op:
            return given
        names = self._input_names(node)
        return [one for at, one in enumerate(given) if at >= len(names) or names[at] not in _HOW_INPUTS]

    def _of_node(self, node: Any, made: Mapping[str, bytes]) -> bytes:
        inputs = [made.get(source, b"") + port for source, port in self._inputs(node)]
        if node.op in _PASSES_ON and inputs:
            return inputs[0].removesuffix(b":0")
        said = [_AS.get(node.op, node.op).encode() if node.op not in self._functions else self._of_function(node.op)]
        for key in sorted(node.attr):
            if not key.startswith("_") and key not in _HOW_ATTRIBUTES:
                said += [key.encode(), self._attribute(node, key)]
        return _hash(*said, b"inputs", *inputs)

    def _attribute(self, node: Any, key: str) -> bytes:
        value = node.attr[key]
        if value.HasField("func"):
            return self._of_function(value.func.name)
        if value.HasField("list") and value.list.func:
            return b"".join(self._of_function(one.name) for one in value.list.func)
        if value.HasField("tensor"):
            tensor = value.tensor
            if not self._values or tensor.dtype in _HANDLES:
                return b"%d" % tensor.dtype
        return hashlib.sha256(value.SerializeToString(deterministic=True)).digest()

    def _of_function(self, name: str) -> bytes:
        if name in self._known:
            return self._known[name]
        function = self._functions.get(name)
        if function is None or name in self._inside or len(self._inside) >= _MOST_DEPTH:
            return b"unknown"
        self._inside.append(name)
        arguments = [one.name for one in function.signature.input_arg]
        results = [function.ret[one.name] for one in function.signature.output_arg]
        found = self._known[name] = self.of(function.node_def, arguments, results)
        self._inside.pop()
        return found


_HANDLES = frozenset({20, 21})  # DT_RESOURCE, DT_VARIANT


def _place(name: str) -> tuple[str, bytes]:
    """ "node", "node:k", "node:output:k": the node, and which of its results."""
    node, _, rest = name.partition(":")
    return node, b":" + (rest or "0").encode()


def _hash(*parts: bytes) -> bytes:
    hash = hashlib.sha256()
    for part in parts:
        hash.update(len(part).to_bytes(8, "little") + part)
    return hash.digest()


def of_dataset(dataset: Any) -> PipelineGraph | None:
    """None: it has no graph to be told by (2 GiB of constants)."""
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.framework import op_def_registry

    try:
        serialized = tf.raw_ops.DatasetToGraphV2(
            input_dataset=dataset._variant_tensor, external_state_policy=1, strip_device_assignment=True
        )
        graph = graph_pb2.GraphDef.FromString(serialized.numpy())
    except Exception:  # noqa: BLE001 - whatever a third party's data set makes of it; batches are compared all the same
        return None

    def input_names(node: Any) -> list[str]:
        """Up to the first that is a list."""
        definition = op_def_registry.get(node.op)
        found = []
        for one in definition.input_arg if definition is not None else ():
            many = node.attr[one.number_attr].i if one.number_attr else 1
            if one.type_list_attr:
                many = len(node.attr[one.type_list_attr].list.type)
            found += [one.name] * many
        return found

    functions = {one.signature.name: one for one in graph.library.function}
    return PipelineGraph(graph.node, functions, input_names)
