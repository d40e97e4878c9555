"""What is run is the graph that was traced for the fingerprint; a shard's records are done some at a time."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.support import materializing
from tfquiver import errors
from tfquiver.materializing.function_fingerprints.function import Function

RECORDS = [number.to_bytes(8, "little") + bytes(number % 7) for number in range(1000)]


def test_it_is_traced_twice_and_run_as_it_was_traced() -> None:
    traces = itertools.count()
    seen = []

    def fn(record: tf.Tensor) -> tf.Tensor:
        seen.append(next(traces))
        return tf.strings.length(record)

    function = Function(fn, "", False)
    made = [int.from_bytes(one, "little") for one in function.apply(RECORDS, 0)]
    assert made == list(map(len, RECORDS))
    assert list(function.apply(RECORDS[:3], 0)) == [(8 + n).to_bytes(4, "little") for n in range(3)]
    assert seen == [0, 1], "the second is to be the same"


def test_python_control_flow_over_tensors_works_as_in_map() -> None:
    def fn(record: tf.Tensor) -> tf.Tensor:
        total = 0
        for step in tf.range(tf.strings.length(record)):
            if step % 2 == 0:
                total += step
        return total

    made = [int.from_bytes(one, "little") for one in Function(fn, "", False).apply(RECORDS, 0)]
    data = tf.data.Dataset.from_tensor_slices(RECORDS).map(fn)
    assert made == list(data.as_numpy_iterator())


@pytest.mark.timeout(60)
def test_a_loop_over_rows_of_any_number_ends() -> None:
    def fn(record: tf.Tensor) -> tf.Tensor:
        total = 0
        rows = tf.strings.split(tf.strings.split(record, "|"), ",")
        for row in rows.with_row_splits_dtype(tf.int32):
            total += tf.size(row)
        return total

    made = [int.from_bytes(one, "little") for one in Function(fn, "", False).apply([b"a,b|c", b"d"], 0)]
    assert made == [3, 1]
    rows = tf.ragged.constant([[1], [2, 3]])
    assert [row.shape[0] for row in rows] == [1, 2], "TensorFlow's own way is as it was"
    assert "__iter__" not in tf.RaggedTensor.__dict__


def test_what_is_large_is_made_some_records_at_a_time(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    counted = materializing.counted(calls)

    def large(record: tf.Tensor) -> Any:
        return counted(record), tf.zeros([1 << 20], tf.uint8)

    made = Function(large, "", False).apply(RECORDS, 0)
    for number in range(300):
        assert next(made)[:8] == RECORDS[number][:8]
        assert materializing.calls_in(calls) <= number + 64
    made.close()


def test_seeds_are_of_places_in_the_shard_however_it_is_cut() -> None:
    def noise(record: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return tf.random.stateless_uniform([], seed, 0, 1 << 30, tf.int32)

    made = [int.from_bytes(one, "little") for one in Function(noise, "", True).apply(RECORDS, 17)]
    assert made == [int(noise(tf.constant(b""), tf.constant([17, place], tf.int64))) for place in range(len(RECORDS))]


# In TensorFlow's C interface: its C++ headers take ten seconds to compile.
OP = """
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
static void shape(TF_ShapeInferenceContext* ctx, TF_Status* status) {
  TF_ShapeHandle* scalar = TF_ShapeInferenceContextScalar(ctx);
  TF_ShapeInferenceContextSetOutput(ctx, 0, scalar, status);
  TF_DeleteShapeHandle(scalar);
}
static void compute(void*, TF_OpKernelContext* ctx) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* one = nullptr;
  TF_GetInput(ctx, 0, &one, status);
  TF_Tensor* two = TF_AllocateOutput(ctx, 0, TF_INT32, nullptr, 0, sizeof(int32_t), status);
  *static_cast<int32_t*>(TF_TensorData(two)) = 2 * *static_cast<int32_t*>(TF_TensorData(one));
  TF_DeleteTensor(one);
  TF_DeleteTensor(two);
  TF_DeleteStatus(status);
}
static const bool registered = [] {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("TestsTwice");
  TF_OpDefinitionBuilderAddInput(op, "one: int32");
  TF_OpDefinitionBuilderAddOutput(op, "two: int32");
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, &shape);
  TF_RegisterOpDefinition(op, status);
  TF_KernelBuilder* kernel = TF_NewKernelBuilder("TestsTwice", "CPU", nullptr, &compute, nullptr);
  TF_RegisterKernelBuilder("TestsTwice", kernel, status);
  TF_DeleteStatus(status);
  return true;
}();
"""


def test_an_op_of_another_library_takes_a_version(tmp_path: Path) -> None:
    (tmp_path / "op.cc").write_text(OP)
    command = ["g++", "-O0", "-shared", "-fPIC", str(tmp_path / "op.cc"), "-o", str(tmp_path / "op.so")]
    subprocess.run([*command, *tf.sysconfig.get_compile_flags()], check=True)
    library = tf.load_op_library(str(tmp_path / "op.so"))

    def fn(record: tf.Tensor) -> tf.Tensor:
        return library.tests_twice(one=tf.strings.length(record))

    def inner(record: tf.Tensor) -> tf.Tensor:
        return tf.cond(tf.strings.length(record) > 3, lambda: fn(record), lambda: 0)

    for one in (fn, inner):
        with pytest.raises(errors.InvalidArgumentError, match=r"TestsTwice.*another library.*version="):
            Function(one, "", False)
        assert Function(one, "1.0", False).fingerprint != Function(one, "1.1", False).fingerprint
    made = [int.from_bytes(one, "little") for one in Function(fn, "1.0", False).apply(RECORDS, 0)]
    assert made == [2 * len(record) for record in RECORDS]


@pytest.mark.parametrize("record", [b"abc", b"abcdef"])
def test_a_shape_that_is_not_so_is_refused_by_the_record(record: bytes) -> None:
    """Of fixed shapes the bytes are kept, and of such an element they were not its own, or not all of them."""

    def fixed(record: tf.Tensor) -> tf.Tensor:
        letters = tf.io.decode_raw(record, tf.uint8)
        letters.set_shape([4])
        return letters

    def words(record: tf.Tensor) -> tf.Tensor:
        letters = tf.strings.bytes_split(record)
        letters.set_shape([4])
        return letters

    for fn in (fixed, words):
        function = Function(fn, "", False)
        assert len(list(function.apply([b"abcd"], 0))) == 1
        with pytest.raises(errors.InvalidArgumentError, match=rf"(?s)fn {fn.__name__}: .*\[{len(record)}\].*\[4\]"):
            list(function.apply([b"abcd", record], 0))


@pytest.mark.parametrize("number", [0, 15, 16, 39])
def test_the_record_that_fails_is_named_and_what_it_says_stands_first(number: int) -> None:
    """TensorFlow's account of where its ops stand was before it, and nobody knew of which record it was."""

    def fn(record: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_none_equal(record, tf.constant(b"bad"), message="no bad ones")
        return tf.strings.length(record)

    records = [b"good"] * 40
    records[number] = b"bad"
    with pytest.raises(errors.InvalidArgumentError) as raised:
        list(Function(fn, "", False).apply(records, 0))
    said = f"record {number} of it: fn fn: assertion failed: [no bad ones]"
    assert str(raised.value).startswith(said) and "\n" not in str(raised.value)
    assert isinstance(raised.value.__cause__, tf.errors.InvalidArgumentError)
