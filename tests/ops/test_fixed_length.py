"""Records of fixed length leave the source as what `tf.io.decode_raw` makes of them; others are errors."""

from __future__ import annotations

import itertools
import math
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.conftest import MakeNode
from tests.ops.test_service import distributed, service
from tests.support.op_source import OpSource, drop_iterators, parsed_source
from tests.support.reader_wire import DIGEST_ID
from tests.support.scripted_node import ScriptedNode
from tests.support.shard_bytes import write_shards
from tfquiver import FixedLength, errors
from tfquiver.ops.compiling_and_loading import loader
from tfquiver.tensorflow_client.parsing.fixed_length import FixedParsing

TYPES = ["float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16"]
TYPES += ["complex64", "complex128", "bool"]
SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)
FIELDS = st.builds(FixedLength, shape=SHAPES, dtype=st.sampled_from(TYPES), little_endian=st.booleans())


def bytes_of(field: FixedLength) -> int:
    return math.prod(field.shape) * int(tf.as_dtype(field.dtype).size)


def decoded(records: list[bytes], field: FixedLength) -> np.ndarray[Any, Any]:
    """What TensorFlow makes of them."""
    flat = tf.io.decode_raw(tf.constant(records, tf.string), field.dtype, field.little_endian)
    return tf.reshape(flat, [len(records), *field.shape]).numpy()


def same(found: tf.Tensor, expected: np.ndarray[Any, Any]) -> bool:
    """Bit by bit: not every one of these bits is a number that equals itself."""
    array = found.numpy()
    return array.dtype == expected.dtype and array.shape == expected.shape and array.tobytes() == expected.tobytes()


@given(
    fields=st.lists(FIELDS, min_size=1, max_size=4),
    alone=st.booleans(),
    batch=st.integers(1, 9),
    shards=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    threads=st.sampled_from([1, 3]),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_values_are_those_of_decode_raw(
    fields: list[FixedLength], alone: bool, batch: int, shards: list[int], threads: int, data: st.DataObject
) -> None:
    fields = fields[:1] if alone else fields
    sizes = [bytes_of(field) for field in fields]
    some = st.binary(min_size=sum(sizes), max_size=sum(sizes))
    records = [[data.draw(some) for _ in range(count)] for count in shards]
    keys = data.draw(st.permutations([f"key{number}" for number in range(len(fields))]))
    with tempfile.TemporaryDirectory() as folder:
        with ScriptedNode(Path(folder) / "socket", write_shards(Path(folder) / "data", records)) as node:
            loader.load().set_endpoint("", str(node.path))
            parse = fields[0] if alone else dict(zip(keys, fields, strict=True))
            source = parsed_source(parse, shuffle_bytes=0, batch_size=batch, parse_threads=threads)
            found = list(source)
        drop_iterators()
    every = list(itertools.chain(*records))
    batches = [every[first : first + batch] for first in range(0, len(every), batch)]
    assert len(found) == len(batches)
    for tensors, batched in zip(found, batches, strict=True):
        for number, (key, field) in enumerate(zip(keys, fields, strict=True)):
            begin = sum(sizes[:number])
            expected = decoded([record[begin : begin + sizes[number]] for record in batched], field)
            assert same(tensors if alone else tensors[key], expected), key


@pytest.mark.parametrize("little_endian", [True, False])
def test_big_batches_in_several_threads_and_after_the_iterator_is_gone(
    make_node: MakeNode, little_endian: bool
) -> None:
    shape = [50, 60, 3]
    rows = (
        np.arange(400, dtype=np.uint16)[:, None].repeat(math.prod(shape), 1).astype("<u2" if little_endian else ">u2")
    )
    make_node([[row.tobytes() for row in rows[first : first + 40]] for first in range(0, 400, 40)])
    parse = FixedLength(shape, np.uint16, little_endian)
    batches = list(parsed_source(parse, batch_size=64, parse_threads=4).repeat(2))
    drop_iterators()
    found: Counter[int] = Counter()
    for batch in batches:
        images = batch.numpy().reshape(len(batch), -1)
        assert (images == images[:, :1]).all()
        found.update(images[:, 0].tolist())
    assert found == Counter(dict.fromkeys(range(400), 2))


def test_a_dict_of_fields_is_as_known_beforehand(make_node: MakeNode) -> None:
    make_node([[bytes([number]) + number.to_bytes(4, "big") for number in range(10)]])
    parse = {"z": FixedLength([], tf.uint8), "a": FixedLength([1], tf.int32, little_endian=False)}
    source = parsed_source(parse, batch_size=5, drop_remainder=True)
    assert source.element_spec == {"z": tf.TensorSpec([5], tf.uint8), "a": tf.TensorSpec([5, 1], tf.int32)}
    for batch in source:
        assert batch["z"].numpy().tolist() == batch["a"].numpy()[:, 0].tolist()


@pytest.mark.parametrize("size", [0, 7, 9, 70_000])
def test_a_record_of_another_length_is_an_error_that_names_it_and_the_next_batch_comes(
    make_node: MakeNode, size: int
) -> None:
    good = [[bytes([shard * 10 + number]) * 8 for number in range(10)] for shard in range(3)]
    shards = [list(shard) for shard in good]
    shards[1][4] = b"\xff" * size
    make_node(shards)
    iterator = iter(parsed_source(FixedLength([8], "uint8"), shuffle_bytes=0, batch_size=5))
    found = []
    said = []
    for _ in range(6):
        try:
            found += next(iterator).numpy()[:, 0].tolist()
        except tf.errors.InvalidArgumentError as error:
            said.append(error.message)
    assert found == [first for first in range(30) if not 10 <= first < 15]
    place = f"record 4 of shard 1 of data set {DIGEST_ID.hex()}"
    assert len(said) == 1
    assert re.search(rf"parse: {place} has {size} bytes, and its FixedLength fields 8", said[0]), said


def test_the_name_is_that_of_the_record_in_a_shuffled_epoch_too(make_node: MakeNode) -> None:
    shards = [[b"12345678"] * 50 for _ in range(4)]
    shards[2][17] = b"short"
    make_node(shards)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"record 17 of shard 2 of data set .* has 5 bytes"):
        list(parsed_source(FixedLength([2], "int32"), batch_size=200))


@pytest.mark.parametrize("symbolic", [False, True], ids=["plain", "symbolic"])
def test_a_checkpoint_goes_on_with_the_records_that_were_not_read(
    make_node: MakeNode, tmp_path: Path, symbolic: bool
) -> None:
    numbers = [number.to_bytes(8, "little") for number in range(300)]
    make_node([numbers[first : first + 30] for first in range(0, 300, 30)])

    def pipeline() -> tf.data.Dataset:
        options = tf.data.Options()
        options.experimental_symbolic_checkpoint = symbolic
        return parsed_source(FixedLength([], tf.int64), num_records=300, batch_size=7).with_options(options)

    iterator = iter(pipeline())
    found = [batch.numpy().tolist() for batch in itertools.islice(iterator, 11)]
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    next(iterator)
    iterator = iter(pipeline())
    tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    found += [batch.numpy().tolist() for batch in iterator]
    assert sorted(itertools.chain(*found)) == list(range(300))


def test_workers_read_numbers(make_node: MakeNode) -> None:
    numbers = [number.to_bytes(2, "big") for number in range(200)]
    make_node([numbers[first : first + 20] for first in range(0, 200, 20)])
    parse = {"n": FixedLength([], tf.int16, little_endian=False)}
    with service(2) as target:
        found = [number for batch in distributed(target, parsed_source(parse, batch_size=8)) for number in batch["n"]]
    assert sorted(int(number) for number in found) == list(range(200))


def test_what_cannot_be_is_an_error_that_names_it() -> None:
    for wrong in (7, "12", [0], [-1], [1.5], [True], [None], [1 << 20, 1 << 20], [1] * 254):
        with pytest.raises(errors.InvalidArgumentError, match="FixedLength: shape="):
            FixedLength(wrong, "uint8")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="little_endian"):
        FixedLength([], "uint8", "big")  # type: ignore[arg-type]
    for dtype in ("string", "nonsense", None, tf.variant, tf.qint8, True, 3, np.dtype(">i4")):
        with pytest.raises(errors.InvalidArgumentError, match="parse: n: dtype="):
            FixedParsing({"n": FixedLength([], dtype)})
    with pytest.raises(errors.InvalidArgumentError, match="the limit is"):
        FixedParsing({"a": FixedLength([1 << 31], "int8"), "b": FixedLength([1 << 31, 2], "int8")})
    for mixed in (
        {"a": FixedLength([], "int8"), "b": tf.io.FixedLenFeature([], tf.int64)},
        3,
        {1: FixedLength([], "int8")},
    ):
        with pytest.raises(errors.InvalidArgumentError, match="parse="):
            parsed_source(mixed, batch_size=3)
    with pytest.raises(errors.InvalidArgumentError, match="batch_size"):
        parsed_source(FixedLength([], "int8"))


@pytest.mark.parametrize(
    "attributes",
    [
        {"field_offsets": [-1]},
        {"field_offsets": [1 << 33]},
        {"field_offsets": []},
        {"field_shapes": [[0]]},
        {"field_shapes": [[None]]},
        {"field_shapes": [[1 << 62]]},
        {"field_shapes": [[1] * 254]},
        {"dense_keys": ["i"], "dense_shapes": [[]], "parse_defaults": [np.zeros(0, np.int64)]},
    ],
    ids=str,
)
def test_a_graph_that_nobody_here_has_made_is_refused(attributes: dict[str, Any]) -> None:
    class Made(FixedParsing):
        def told(self) -> dict[str, Any]:
            return super().told() | attributes

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"parse|field|examples"):
        OpSource(parsing=Made(FixedLength([2], "int32")), batch_size=3)
