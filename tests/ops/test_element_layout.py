"""Elements as records: the bytes are those of docs/formats.md, whatever TensorFlow; what cannot be kept is refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import tensorflow as tf

from tests.golden import elements_v1
from tfquiver import errors
from tfquiver.materializing.elements_as_records import element_layout
from tfquiver.materializing.elements_as_records.element_layout import ElementLayout


def spec_of(element: Any) -> Any:
    return tf.nest.map_structure(tf.type_spec_from_value, element)


@pytest.mark.parametrize("name", sorted(elements_v1.ELEMENTS))
def test_records_are_the_golden_ones_and_read_back(name: str) -> None:
    element = elements_v1.ELEMENTS[name]()
    layout = ElementLayout(spec_of(element))
    assert (layout.form, element_layout.VERSION) == (elements_v1.FORMS[name], 1)
    assert layout.encode(element).numpy() == elements_v1.read(name)
    back = layout.decode(tf.constant(elements_v1.read(name)))
    were, are = (tf.nest.flatten(one, expand_composites=True) for one in (element, back))
    assert [one.dtype for one in are] == [one.dtype for one in were]
    assert all(bool(tf.reduce_all(a == b)) for a, b in zip(were, are, strict=True))


def test_a_fixed_element_is_its_bytes_and_comes_in_batches() -> None:
    layout = ElementLayout((tf.TensorSpec([2], tf.int16), tf.TensorSpec([], tf.float32)))
    records = [struct.pack("<hhf", number, -number, number / 2) for number in range(5)]
    assert layout.encode((tf.constant([3, -3], tf.int16), tf.constant(1.5))).numpy() == records[3]
    pairs, halves = layout.decode(tf.constant(records))
    assert pairs.numpy().tolist() == [[number, -number] for number in range(5)]
    assert halves.numpy().tolist() == [number / 2 for number in range(5)]


@pytest.mark.parametrize("record", [b"", b"123", b"123456789", b"x" * 16])
def test_a_record_of_another_length_is_an_error(record: bytes) -> None:
    layout = ElementLayout((tf.TensorSpec([2], tf.int16), tf.TensorSpec([], tf.float32)))
    with pytest.raises(tf.errors.InvalidArgumentError):
        layout.decode(tf.constant(record))


@pytest.mark.parametrize(
    "spec", [tf.data.DatasetSpec(tf.TensorSpec([], tf.int64)), tf.OptionalSpec(tf.TensorSpec([], tf.int64)), (), {}]
)
def test_what_is_no_tensors_is_refused(spec: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="fn returns"):
        ElementLayout(spec)
