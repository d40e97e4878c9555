"""tf.train.Example read without TensorFlow agrees with protobuf's own reading, and takes nothing that is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.reader.example import parse_example

_FIELD = descriptor_pb2.FieldDescriptorProto
_LISTS = {"BytesList": _FIELD.TYPE_BYTES, "FloatList": _FIELD.TYPE_FLOAT, "Int64List": _FIELD.TYPE_INT64}


def _message(packed: bool) -> Any:
    """The class Example, as tensorflow/core/example declares it."""
    package = f"example_{packed}".lower()
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, str, int]) -> Any:
        made = file.message_type.add(name=name)
        for field, number, kind, of, label in fields:
            made.field.add(name=field, number=number, type=kind, type_name=of or None, label=label)
        return made

    for name, kind in _LISTS.items():
        made = message(name, ("value", 1, kind, "", _FIELD.LABEL_REPEATED))
        if kind != _FIELD.TYPE_BYTES:
            made.field[0].options.packed = packed
    kinds = [("bytes_list", 1, "BytesList"), ("float_list", 2, "FloatList"), ("int64_list", 3, "Int64List")]
    optional, nested = _FIELD.LABEL_OPTIONAL, _FIELD.TYPE_MESSAGE
    feature = message("Feature", *[(name, n, nested, f".{package}.{of}", optional) for name, n, of in kinds])
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    features = message("Features", ("feature", 1, nested, f".{package}.Features.FeatureEntry", _FIELD.LABEL_REPEATED))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=optional)
    entry.field.add(name="value", number=2, type=nested, type_name=f".{package}.Feature", label=optional)
    message("Example", ("features", 1, nested, f".{package}.Features", optional))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Example"))


EXAMPLES = {packed: _message(packed) for packed in (True, False)}
_INT64 = st.integers(-(2**63), 2**63 - 1)
_VALUES = st.one_of(
    st.lists(st.binary(max_size=300), max_size=5).map(lambda values: ("bytes_list", values)),
    st.lists(st.floats(width=32), max_size=5).map(lambda values: ("float_list", values)),
    st.lists(_INT64, max_size=5).map(lambda values: ("int64_list", values)),
)
_FEATURES = st.dictionaries(st.text(max_size=20), _VALUES, max_size=5)


def _serialized(features: dict[str, tuple[str, list[Any]]], packed: bool = True) -> bytes:
    example = EXAMPLES[packed]()
    for name, (kind, values) in features.items():
        getattr(example.features.feature[name], kind).value.extend(values)
        getattr(example.features.feature[name], kind).SetInParent()
    serialized: bytes = example.SerializeToString()
    return serialized


@given(_FEATURES, st.booleans())
def test_what_protobuf_wrote_is_read(features: dict[str, tuple[str, list[Any]]], packed: bool) -> None:
    found = parse_example(memoryview(_serialized(features, packed)))
    assert found.keys() == features.keys()
    for name, (kind, values) in features.items():
        if kind == "bytes_list":
            assert found[name] == values
        else:
            expected = np.array(values, np.float32 if kind == "float_list" else np.int64)
            assert isinstance(found[name], np.ndarray) and found[name].dtype == expected.dtype
            np.testing.assert_array_equal(found[name], expected)


@given(_FEATURES, st.data())
def test_a_damaged_one_is_another_example_or_an_error(
    features: dict[str, tuple[str, list[Any]]], data: st.DataObject
) -> None:
    record = bytearray(_serialized({**features, "x": ("int64_list", [1, 2])}))
    record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse_example(bytes(record[: data.draw(st.integers(0, len(record)))]))
    except errors.DataLossError as error:
        assert "no tf.train.Example" in str(error) and "at byte" in str(error)


@pytest.mark.parametrize("record", [b"\x0a\xff", b"\x0b", b"\xff" * 20, b"\x0a\x05abc", b"\x00\x00"])
def test_what_is_none_is_said_to_be_none(record: bytes) -> None:
    with pytest.raises(errors.DataLossError, match="at byte"):
        parse_example(record)


def test_a_feature_without_a_kind_is_empty_and_an_unknown_field_is_passed_over() -> None:
    unknown = b"\x12\x03abc" + b"\x18\x05"  # fields 2 and 3 of Example
    nothing = b"\x0a\x07\x0a\x05\x0a\x01n\x12\x00"
    assert parse_example(unknown + nothing) == {"n": []}
