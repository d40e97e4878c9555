"""A function is known by what it computes: the same in every process, another where anything differs that matters."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.cluster import tensorflow_env
from tfquiver import errors
from tfquiver.materializing.function_fingerprints.function import Function


def known(fn: Callable[..., Any], version: str = "", seeded: bool = False) -> bytes:
    return Function(fn, version, seeded).fingerprint


def branching(record: tf.Tensor) -> Any:
    """With a loop, a branch and a call: their functions have names that each process makes up."""

    @tf.function
    def inner(number: tf.Tensor) -> tf.Tensor:
        return tf.cond(number > 2, lambda: number * 2, lambda: number + 1)

    steps = tf.strings.length(record)
    total = tf.while_loop(lambda step, total: step < steps, lambda step, total: (step + 1, total + inner(step)), (0, 0))
    return {"total": total[1], "mapped": tf.map_fn(lambda one: one + 1, tf.range(3))}


@pytest.mark.long
def test_it_is_the_same_again_here_and_in_another_process() -> None:
    many = [lambda record, number=number: tf.strings.length(record) + number for number in range(5)]
    assert len({known(fn) for fn in many}) == 5  # and the process's counters have gone on
    assert known(branching) == known(branching)
    code = "from tests.ops.test_graph_hash import branching, known; print(known(branching).hex())"
    there = subprocess.run(
        [sys.executable, "-c", code], env=tensorflow_env(), capture_output=True, text=True, timeout=120, check=True
    )
    assert there.stdout.split()[-1] == known(branching).hex()


def _length(record: tf.Tensor) -> tf.Tensor:
    return tf.strings.length(record)


_TABLE = np.arange(5, dtype=np.float32)


def test_what_differs_is_another() -> None:
    eager, other = tf.constant([1.0, 2.0]), tf.constant([1.0, 2.5])
    texts, other_texts = tf.constant(["a", "bc"]), tf.constant(["ab", "c"])
    functions: list[Callable[[tf.Tensor], Any]] = [
        _length,
        lambda record: _length(record) + 1,
        lambda record: _length(record) - 1,
        lambda record: _length(record) * 2,
        lambda record: tf.cast(_length(record), tf.int64),
        lambda record: tf.cast(_length(record), tf.float32) * eager,
        lambda record: tf.cast(_length(record), tf.float32) * other,
        lambda record: tf.cast(_length(record), tf.float32) * _TABLE,
        lambda record: tf.cast(_length(record), tf.float32) * (_TABLE + 1),
        lambda record: tf.strings.join([record, texts[0]]),
        lambda record: tf.strings.join([record, other_texts[0]]),
        lambda record: tf.strings.join([texts[0], record]),
        lambda record: tf.cond(_length(record) > 1, lambda: 1, lambda: 2),
        lambda record: tf.cond(_length(record) > 1, lambda: 1, lambda: 3),
        lambda record: {"a": _length(record)},
        lambda record: (_length(record), 1),
        lambda record: (1, _length(record)),
    ]
    assert len({known(fn) for fn in functions}) == len(functions)
    assert known(_length, "v2") != known(_length)


def test_a_captured_value_counts_not_the_tensor_that_has_it() -> None:
    def capturing(value: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
        return lambda record: tf.cast(_length(record), tf.float32) + value

    assert known(capturing(tf.constant(2.0))) == known(capturing(tf.constant(2.0)))
    assert known(capturing(tf.constant(2.0))) != known(capturing(tf.constant(3.0)))


def test_random_ops_with_the_seed_that_is_given_are_no_state() -> None:
    assert known(lambda record, seed: tf.random.stateless_normal([2], seed), seeded=True)
    with pytest.raises(errors.InvalidArgumentError, match=r"RandomStandardNormal.*stateless"):
        known(lambda record, seed: tf.random.normal([2]), seeded=True)


def _picture(record: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.cast(tf.strings.length(record) + tf.range(64), tf.float32), [1, 8, 8, 1])


@pytest.mark.parametrize(
    ("by_chance", "not_by_chance"),
    [
        (
            lambda record: tf.nn.fractional_max_pool(_picture(record), [1, 1.4, 1.4, 1], pseudo_random=True)[0],
            lambda record: tf.nn.fractional_max_pool(_picture(record), [1, 1.4, 1.4, 1], pseudo_random=True, seed=5)[0],
        ),
        (
            lambda record: tf.image.extract_glimpse(_picture(record), [9, 9], [[0.0, 0.0]]),
            lambda record: tf.image.extract_glimpse(_picture(record), [9, 9], [[0.0, 0.0]], noise="zero"),
        ),
    ],
)
def test_chance_that_tensorflow_does_not_call_a_state_is_refused(
    by_chance: Callable[..., Any], not_by_chance: Callable[..., Any]
) -> None:
    """What was kept was one draw, for all epochs."""
    with pytest.raises(errors.InvalidArgumentError, match=r"(FractionalMaxPool|ExtractGlimpse).*it is random"):
        known(by_chance)
    assert known(not_by_chance)


def test_chance_and_counters_of_python_are_refused() -> None:
    """Each trace has another constant: what computes would not be what the fingerprint is of."""
    numbers, generator = itertools.count(), np.random.default_rng(7)
    for fn in (
        lambda record: _length(record) + next(numbers),
        lambda record: tf.cast(_length(record), tf.float32) * np.float32(generator.random()),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=r"each time it is traced.*stateless"):
            known(fn)


def test_a_table_is_a_state() -> None:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 0)
    with pytest.raises(errors.InvalidArgumentError, match=r"state|captures"):
        known(lambda record: table.lookup(record))


def test_what_lies_in_files_is_refused_or_takes_a_version() -> None:
    def decoded(source: str) -> Callable[[tf.Tensor], Any]:
        return lambda record: tf.io.decode_proto(record, "a.B", ["c"], [tf.int32], descriptor_source=source)[1]

    with pytest.raises(errors.InvalidArgumentError, match=r"DecodeProtoV2.*/descriptors/a\.desc.*version="):
        known(decoded("/descriptors/a.desc"))
    assert known(decoded("bytes://x")) != known(decoded("bytes://y"))
    assert known(decoded("/descriptors/a.desc"), "1") != known(decoded("/descriptors/a.desc"), "2")
