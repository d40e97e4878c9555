"""What a traced function computes, as 32 bytes that are the same in every process.

Names that a process makes up (functions, nodes, arguments) are replaced by places, functions by what they compute;
attributes that say how a function is run, not what it computes, are left out. What cannot be told from the graph is
refused: state, chance, the outside world.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfquiver import errors

# Stateful by TensorFlow's word because what they call may be, which is looked at itself; or without effect on outcomes.
_CALLS = frozenset(
    {"StatefulPartitionedCall", "PartitionedCall", "If", "While", "Case", "SymbolicGradient", "Assert", "PrintV2",
     "StatelessIf", "StatelessWhile", "StatelessCase", "CheckNumerics", "Print"}
)  # fmt: skip
_OUTSIDE = frozenset(
    {"ReadFile", "MatchingFiles", "Timestamp", "PyFunc", "PyFuncStateless", "EagerPyFunc", "GenerateVocabRemapping",
     "ImmutableConst", "CacheDataset", "SnapshotDataset", "SnapshotDatasetV2", "SnapshotChunkDataset"}
)  # fmt: skip
# Random, though TensorFlow does not call them stateful, unless their attributes say that they are not.
_BY_CHANCE: Mapping[str, Callable[[Any], bool]] = {
    "ExtractGlimpse": lambda attributes: attributes["noise"].s != b"zero",
    "ExtractGlimpseV2": lambda attributes: attributes["noise"].s != b"zero",
    "FractionalAvgPool": lambda attributes: not _fixed(attributes),
    "FractionalMaxPool": lambda attributes: not _fixed(attributes),
    "SamplingDataset": lambda _: True,  # their seeds are inputs, and 0 is any
    "ShuffleDataset": lambda _: True,
    "ShuffleAndRepeatDataset": lambda _: True,
}
_OF_DESCRIPTORS = frozenset({"DecodeProtoV2", "EncodeProto"})
_HOW_IT_RUNS = frozenset({"config", "config_proto", "executor_type", "shared_name", "container"})
_MOST_DEPTH = 64


class GraphHash:
    """Args:
    functions: name -> FunctionDef, of the graph's library.
    random_hint: what to do about a random op, for messages.
    versioned: the user says a version, which stands for what ops of other libraries do.
    """

    def __init__(self, functions: Mapping[str, Any], random_hint: str, versioned: bool = False) -> None:
        self._functions, self._random_hint, self._versioned = functions, random_hint, versioned
        self._known: dict[str, bytes] = {}
        self._depth = 0

    def of_function(self, name: str) -> bytes:
        """Raises InvalidArgumentError naming the op that cannot be."""
        if name in self._known:
            return self._known[name]
        if (function := self._functions.get(name)) is None:
            raise errors.InvalidArgumentError(f"fn calls {name}, which its graph does not have")
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise errors.InvalidArgumentError(
                f"fn calls functions more than {_MOST_DEPTH} deep, or one that calls itself"
            )
        try:
            arguments = [(one.name, one.type) for one in function.signature.input_arg]
            results = [function.ret[one.name] for one in function.signature.output_arg]
            controls = [function.control_ret[one] for one in function.signature.control_output]
            found = self._hash(arguments, function.node_def, results, controls)
        finally:
            self._depth -= 1
        self._known[name] = found
        return found

    def of_graph(self, nodes: Sequence[Any], arguments: Sequence[str], results: Sequence[str]) -> bytes:
        """Of NodeDefs; `arguments`: names of those that are given, `results`: "name:k". Raises as above."""
        given = set(arguments)
        kept = [node for node in nodes if node.name not in given]
        types = {node.name: node.attr["dtype"].type for node in nodes if node.name in given}
        return self._hash([(name, types.get(name, 0)) for name in arguments], kept, results, [])

    def _hash(
        self,
        arguments: Sequence[tuple[str, int]],
        nodes: Sequence[Any],
        results: Sequence[str],
        controls: Sequence[str],
    ) -> bytes:
        places = {name: f"a{place}" for place, (name, _) in enumerate(arguments)}
        places |= {node.name: f"n{place}" for place, node in enumerate(nodes)}
        hash = hashlib.sha256(b"tfquiver graph\0")
        _add(hash, [f"{type}" for _, type in arguments])
        for node in nodes:
            self._check(node)
            op = self.of_function(node.op).hex() if node.op in self._functions else node.op
            _add(hash, [op, *(_placed(one, places) for one in node.input)])
            for key in sorted(node.attr):
                if not key.startswith("_") and key not in _HOW_IT_RUNS:
                    hash.update(key.encode() + b"\0" + self._attribute(node.attr[key]))
        _add(hash, [_placed(one, places) for one in (*results, *controls)])
        return hash.digest()

    def _attribute(self, value: Any) -> bytes:
        if value.HasField("func"):
            return b"func\0" + self._called(value.func)
        if value.HasField("list") and value.list.func:
            return b"funcs\0" + b"".join(map(self._called, value.list.func))
        return hashlib.sha256(value.SerializeToString(deterministic=True)).digest()

    def _called(self, function: Any) -> bytes:
        inner = b"".join(
            key.encode() + b"\0" + self._attribute(function.attr[key])
            for key in sorted(function.attr)
            if not key.startswith("_") and key not in _HOW_IT_RUNS
        )
        return hashlib.sha256(self.of_function(function.name) + inner).digest()

    def _check(self, node: Any) -> None:
        from tensorflow.python.framework import op_def_registry

        if node.op in self._functions or node.op in _CALLS:
            return
        definition = op_def_registry.get(node.op)
        where = f"fn has op {node.op} ({node.name})"
        if definition is None or node.op in _OUTSIDE:
            raise errors.InvalidArgumentError(
                f"{where}: what it gives cannot be told from the graph, so nobody else could know what was kept; use "
                "TensorFlow's own ops on the record, or do this behind materialize"
            )
        if node.op in _OF_DESCRIPTORS and not self._versioned:
            source = node.attr["descriptor_source"].s
            if not source.startswith(b"bytes://"):
                raise errors.InvalidArgumentError(
                    f"{where}: its descriptors lie in {source.decode(errors='replace')!r}, whose content the graph "
                    "does not have. Give them as bytes://, or give tfquiver.materialize a version= that stands for them"
                )
        if not self._versioned and not _of_tensorflow(node.op):
            raise errors.InvalidArgumentError(
                f"{where}, of another library than TensorFlow: its name does not tell what it computes, which may "
                "change with the library. Give tfquiver.materialize a version= (the library's, say), and another one "
                "whenever what the op computes changes"
            )
        by_chance = _BY_CHANCE.get(node.op, lambda _: False)(node.attr)
        if definition.is_stateful or by_chance:
            random = by_chance or "Random" in node.op or node.op in ("Multinomial", "ParameterizedTruncatedNormal")
            raise errors.InvalidArgumentError(
                f"{where}: it is random: {self._random_hint}"
                if random or "Distort" in node.op
                else f"{where}: it has a state that is not in the graph; do this behind materialize"
            )


def _fixed(attributes: Any) -> bool:
    """Of pools: whether each call pools the same."""
    return bool(attributes["deterministic"].b and (attributes["seed"].i or attributes["seed2"].i))


def _of_tensorflow(op: str) -> bool:
    """TensorFlow's version says what these compute."""
    import tensorflow as tf

    return op.startswith(("_", "Xla")) or hasattr(tf.raw_ops, op)


def _placed(name: str, places: Mapping[str, str]) -> str:
    """`name`: "^node", "node", "node:k", "node:output:k"."""
    mark = "^" if name.startswith("^") else ""
    node, colon, rest = name.removeprefix("^").partition(":")
    return f"{mark}{places.get(node, node)}{colon}{rest}"


def _add(hash: Any, words: Sequence[str]) -> None:
    hash.update(f"{len(words)}\0".encode())
    for word in words:
        hash.update(word.encode() + b"\0")
