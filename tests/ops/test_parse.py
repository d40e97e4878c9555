"""Records parsed in the source are what `tf.io.parse_example` makes of them: values, shapes and errors."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.conftest import MakeNode
from tests.ops.test_service import distributed, service
from tests.support.op_source import OpSource, drop_iterators, parsed_source
from tfquiver import errors
from tfquiver.tensorflow_client.parsing.examples import ExampleParsing

BATCH = 3
DENSE = {
    "i": tf.io.FixedLenFeature([], tf.int64),
    "f": tf.io.FixedLenFeature([2, 1], tf.float32),
    "s": tf.io.FixedLenFeature([2], tf.string),
}
SPECS: dict[str, dict[str, Any]] = {
    "dense": DENSE,
    "defaults": {
        "i": tf.io.FixedLenFeature([], tf.int64, default_value=-7),
        "f": tf.io.FixedLenFeature([2, 1], tf.float32, default_value=[[0.5], [1.5]]),
        "s": tf.io.FixedLenFeature([2], tf.string, default_value=["a default of more than 23 bytes", ""]),
    },
    "no_values": {"i": tf.io.FixedLenFeature([0], tf.int64), "s": tf.io.FixedLenFeature([2], tf.string)},
    "sequence": {
        "i": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "s": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True, default_value="pad"),
    },
    "sparse": {"i": tf.io.VarLenFeature(tf.int64), "s": tf.io.VarLenFeature(tf.string), "f": DENSE["f"]},
    "ragged": {
        "i": tf.io.RaggedFeature(tf.int64),
        "s": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64),
    },
    "composite": {
        "placed": tf.io.SparseFeature("i", "i", tf.int64, 100),
        "parts": tf.io.RaggedFeature(
            tf.string, value_key="s", partitions=[tf.io.RaggedFeature.UniformRowLength(2)], validate=False
        ),
    },
    "not_there": {"nobody": tf.io.FixedLenFeature([], tf.int64), "i": tf.io.VarLenFeature(tf.int64)},
}


def feature(rng: random.Random, kind: str, count: int) -> tf.train.Feature:
    if kind == "i":
        numbers = [rng.choice([0, 1, -1, 2**63 - 1, -(2**63), rng.randrange(1000)]) for _ in range(count)]
        return tf.train.Feature(int64_list=tf.train.Int64List(value=numbers))
    if kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=[rng.uniform(-9, 9) for _ in range(count)]))
    texts = [rng.randbytes(rng.choice([0, 3, 22, 23, 24, 300])) for _ in range(count)]
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))


def record(rng: random.Random, trouble: float) -> bytes:
    """An Example with the features i, f and s of DENSE; in a part of the cases something is the matter."""
    counts = {"i": 1, "f": 2, "s": 2}
    features = {}
    for key, count in counts.items():
        if rng.random() < trouble:  # lacks it
            continue
        kind = rng.choice("ifs") if rng.random() < trouble else key
        features[key] = feature(rng, kind, rng.randrange(4) if rng.random() < trouble else count)
    if rng.random() < trouble:
        features["i"] = tf.train.Feature()
    if rng.random() < 0.5:
        features["more"] = feature(rng, rng.choice("ifs"), 2)
    whole = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    if rng.random() < trouble / 2:
        whole = whole[: rng.randrange(len(whole) + 1)]
    if rng.random() < trouble / 2:
        whole += tf.train.Example(features=tf.train.Features(feature={"i": feature(rng, "i", 1)})).SerializeToString()
    return whole


def of_number(number: int, image: bytes) -> bytes:
    features = {
        "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def outcome(value: Any) -> Any:
    """Something that can be compared: of tensors values, types and shapes."""
    if isinstance(value, Mapping):
        return {key: outcome(one) for key, one in value.items()}
    if isinstance(value, tf.SparseTensor):
        return tuple(outcome(part) for part in (value.indices, value.values, value.dense_shape))
    if isinstance(value, tf.RaggedTensor):
        return outcome(value.flat_values), *(outcome(splits) for splits in value.nested_row_splits)
    if isinstance(value, UnicodeDecodeError):  # TensorFlow's errors quote records; Python cannot always take them
        return said(value.object)
    if isinstance(value, tf.errors.OpError):
        return said(value.message.encode())
    array = value.numpy() if isinstance(value, tf.Tensor) else np.asarray(value)
    return array.dtype.str, array.shape, array.tolist()


def said(message: bytes) -> bytes:
    """Without what TensorFlow adds of where it was said."""
    where = rb"^(?:{{.*?}} )?(?:Error in user-defined function .*? iterator: \S+: )?|\s*\[(?:\[{{node|Op:).*$"
    return re.sub(where, b"", message, flags=re.DOTALL).strip()


def outcomes(iterator: Iterator[Any]) -> list[Any]:
    found = []
    while True:
        try:
            found.append(outcome(next(iterator)))
        except StopIteration:
            return found
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            found.append(outcome(error))


def expected_of(records: list[bytes], features: Mapping[str, Any]) -> list[Any]:
    found = []
    for first in range(0, len(records), BATCH):
        try:
            found.append(outcome(tf.io.parse_example(tf.constant(records[first : first + BATCH]), features)))
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            found.append(outcome(error))
    return found


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("trouble", [0.0, 0.04])
@pytest.mark.parametrize("spec", SPECS)
def test_values_and_errors_are_those_of_parse_example(
    make_node: MakeNode, seed: int, spec: str, trouble: float, threads: int
) -> None:
    rng = random.Random(seed)
    records = [record(rng, trouble) for _ in range(200)]
    make_node([records[:50], records[50:130], records[130:]])
    features = SPECS[spec]
    source = parsed_source(features, shuffle_bytes=0, batch_size=BATCH, parse_threads=threads)
    assert outcomes(iter(source)) == expected_of(records, features)


@pytest.mark.parametrize("size", [40, 60_000], ids=["small", "large"])
def test_big_batches_in_several_threads_and_after_the_iterator_is_gone(make_node: MakeNode, size: int) -> None:
    examples = [of_number(number, str(number).encode() * (size // 4)) for number in range(1000, 1400)]
    make_node([examples[first : first + 50] for first in range(0, 400, 50)])
    features = {"n": tf.io.FixedLenFeature([], tf.int64), "image": tf.io.FixedLenFeature([], tf.string)}
    batches = list(parsed_source(features, batch_size=200, parse_threads=4).repeat(2))
    drop_iterators()
    found: Counter[int] = Counter()
    for batch in batches:
        for number, image in zip(batch["n"].numpy(), batch["image"].numpy(), strict=True):
            assert image == str(number).encode() * (size // 4)
            found[int(number)] += 1
    assert found == Counter(dict.fromkeys(range(1000, 1400), 2))


def test_element_specs_are_as_known_beforehand(make_node: MakeNode) -> None:
    make_node([[record(random.Random(1), 0.0)] * 7])
    for name, features in SPECS.items():
        if name in ("not_there", "no_values"):  # errors
            continue
        for drop in (False, True):
            source = parsed_source(features, batch_size=BATCH, drop_remainder=drop)
            for key, spec in source.element_spec.items():
                assert all(spec.is_compatible_with(batch[key]) for batch in source), key
    parsed = parsed_source(DENSE, batch_size=BATCH, drop_remainder=True)
    assert parsed.element_spec["f"] == tf.TensorSpec([BATCH, 2, 1], tf.float32)


@pytest.mark.parametrize("symbolic", [False, True], ids=["plain", "symbolic"])
def test_a_checkpoint_goes_on_with_the_records_that_were_not_read(
    make_node: MakeNode, tmp_path: Path, symbolic: bool
) -> None:
    numbers = range(300)
    examples = [of_number(number, b"") for number in numbers]
    make_node([examples[first : first + 30] for first in range(0, 300, 30)])

    def pipeline() -> tf.data.Dataset:
        options = tf.data.Options()
        options.experimental_symbolic_checkpoint = symbolic
        source = parsed_source({"n": tf.io.FixedLenFeature([], tf.int64)}, num_records=300, batch_size=7)
        return source.with_options(options)

    iterator = iter(pipeline())
    found = [batch["n"].numpy().tolist() for batch in itertools.islice(iterator, 11)]
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    next(iterator)
    iterator = iter(pipeline())
    tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    found += [batch["n"].numpy().tolist() for batch in iterator]
    assert sorted(itertools.chain(*found)) == list(numbers)


def test_workers_parse(make_node: MakeNode) -> None:
    examples = [of_number(number, b"") for number in range(200)]
    make_node([examples[first : first + 20] for first in range(0, 200, 20)])
    features = {"n": tf.io.FixedLenFeature([], tf.int64, default_value=5), "image": tf.io.VarLenFeature(tf.string)}
    with service(2) as target:
        found = [
            number for batch in distributed(target, parsed_source(features, batch_size=8)) for number in batch["n"]
        ]
    assert sorted(int(number) for number in found) == list(range(200))


def test_what_cannot_be_parsed_is_an_error_that_names_it() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="parse: "):
        ExampleParsing({"x": tf.constant(1)})
    with pytest.raises(errors.InvalidArgumentError, match="parse: "):
        ExampleParsing({"x": tf.io.FixedLenFeature([None], tf.int64)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="batch_size"):
        OpSource(parsing=ExampleParsing(DENSE))


@pytest.mark.parametrize("beside", [{}, {"v": tf.io.VarLenFeature(tf.int64)}, {"v": tf.io.RaggedFeature(tf.string)}])
def test_a_batch_that_memory_has_no_room_for_is_an_error(make_node: MakeNode, beside: dict[str, Any]) -> None:
    """TensorFlow's own op writes to no address then. No machine has as much: 2 ** 48 bytes."""
    records = 1 << 13
    make_node([[of_number(1, b"")] * records])
    source = parsed_source({"n": tf.io.FixedLenFeature([1 << 32], tf.int64), **beside}, batch_size=records)
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"feature n: no memory for a batch of .*8192.*429"):
        next(iter(source))


@pytest.mark.parametrize(
    ("feature", "complaint"),
    [
        (tf.io.FixedLenFeature([], tf.int32), "must be one of tf.float32, tf.int64, tf.string"),
        (tf.io.VarLenFeature(tf.bool), "must be one of tf.float32, tf.int64, tf.string"),
        (tf.io.FixedLenFeature([3], tf.int64, default_value=[1, 2]), "shape"),
        (tf.io.FixedLenFeature([-1], tf.int64), "-1"),
        (tf.io.FixedLenFeature([2, None], tf.int64), "known"),
        (tf.io.FixedLenFeature([1] * 254, tf.int64), "255 dimensions, with the batch: at most 254"),
        (tf.io.FixedLenSequenceFeature([1] * 253, tf.int64, allow_missing=True), "255 dimensions"),
        (tf.io.FixedLenFeature([2**62], tf.int64), "more than 4294967296 values"),
        (tf.io.FixedLenFeature([2**40, 2**40], tf.string), "more than 4294967296 values"),
        # At which TensorFlow divides by nothing, and ends the process.
        (tf.io.FixedLenSequenceFeature([2, 0], tf.int64, allow_missing=True), "a sequence of no values"),
    ],
)
def test_a_feature_that_cannot_be_is_named(feature: Any, complaint: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"^parse: feature odd: .*{complaint}"):
        ExampleParsing({**DENSE, "odd": feature})
