"""Pipelines that are to share a stream are told apart by their graphs when they come; those of one script are alike."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered
from tests.support.cluster import tensorflow_env
from tests.support.daemons import cache_dir_fixture
from tfquiver import errors
from tfquiver.tensorflow_client.shared_batches import pipeline_graph

paths = numbered.fixture(2, 100, 200)
cache_dir = cache_dir_fixture()
OTHER = "other transformations or functions"
CONSTANTS = "other constants"


def number_of(record: Any) -> Any:
    return tf.io.decode_raw(tf.strings.substr(record, 0, 8), tf.int64)[0]


def _add(amount: Any) -> Callable[[Any], Any]:
    return lambda record: number_of(record) + amount


def _printing(word: str) -> Callable[[Any], Any]:
    def fn(record: Any) -> Any:
        tf.print(word, output_stream="file:///dev/null")
        tf.debugging.assert_greater(tf.strings.length(record), 0, message=word)
        return number_of(record)

    return fn


def _python(by: int) -> Callable[[Any], Any]:
    return lambda record: tf.ensure_shape(tf.numpy_function(lambda one: one * by, [number_of(record)], tf.int64), [])


def _looked_up(record: Any) -> Any:
    keys = tf.constant([1], tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys), 0)
    return table.lookup(number_of(record))


Made = Callable[[tf.data.Dataset], tf.data.Dataset]
ALIKE: list[tuple[Made, Made]] = [
    (lambda data: data.map(number_of).batch(8), lambda data: data.map(number_of).batch(8)),
    (
        lambda data: data.map(number_of).batch(8).prefetch(2),
        lambda data: data.map(number_of, num_parallel_calls=-1, name="named").batch(8, num_parallel_calls=2),
    ),
    (lambda data: data.map(_printing("a")).batch(8), lambda data: data.map(_printing("b")).batch(8)),
    (lambda data: data.map(_python(1)).batch(8), lambda data: data.map(_python(2)).batch(8)),
    (lambda data: data.map(_looked_up).batch(8), lambda data: data.map(_looked_up).batch(8)),
    (lambda data: data.shuffle(5, seed=3).batch(8), lambda data: data.shuffle(5, seed=3).batch(8)),
]  # fmt: skip
APART: list[tuple[Made, Made, str]] = [
    (lambda data: data.map(_add(1)).batch(8), lambda data: data.map(_add(2)).batch(8), CONSTANTS),
    (
        lambda data: data.map(_add(tf.constant(np.arange(3)))).batch(8),
        lambda data: data.map(_add(tf.constant(np.arange(1, 4)))).batch(8), CONSTANTS,
    ),
    (lambda data: data.map(number_of).batch(8), lambda data: data.map(number_of).batch(9), CONSTANTS),
    (lambda data: data.shuffle(5, seed=3).batch(8), lambda data: data.shuffle(5, seed=4).batch(8), CONSTANTS),
    (
        lambda data: data.map(number_of).map(lambda one: one - 1).batch(8),
        lambda data: data.map(number_of).map(lambda one: one + 1).batch(8), OTHER,
    ),
    (
        lambda data: data.map(lambda record: tf.cond(number_of(record) > 3, lambda: 1, lambda: 2)).batch(8),
        lambda data: data.map(lambda record: tf.cond(number_of(record) < 3, lambda: 1, lambda: 2)).batch(8), OTHER,
    ),
    (
        lambda data: data.map(number_of).filter(lambda one: one % 2 == 0).batch(8),
        lambda data: data.map(number_of).batch(8), OTHER,
    ),
    (
        lambda data: data.map(lambda record: tf.stack([number_of(record), 0])).batch(8),
        lambda data: data.map(lambda record: tf.stack([0, number_of(record)])).batch(8), OTHER,
    ),
]  # fmt: skip


def plain() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices([b"12345678", b"abcdefgh"])


def told(made: Made) -> tuple[bytes, bytes]:
    graph = pipeline_graph.of_dataset(made(plain()))
    assert graph is not None
    return graph.transformations(), graph.all()


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_how_it_runs_tells_nobody_apart(one: Made, other: Made) -> None:
    assert told(one) == told(other)


@pytest.mark.parametrize(("one", "other", "said"), APART)
def test_what_makes_other_batches_is_told(one: Made, other: Made, said: str) -> None:
    (transformations, everything), (others, others_everything) = told(one), told(other)
    assert everything != others_everything
    assert (transformations == others) == (said == CONSTANTS)


def test_who_comes_with_another_pipeline_is_refused_at_once(paths: list[Path], cache_dir: Path) -> None:
    there = iter(source(paths, cache_dir).map(_add(1)).batch(8).apply(tfquiver.one_stream("s")))
    next(there)
    for fn, said in ((_add(2), CONSTANTS), (lambda record: number_of(record) * 2, f"{OTHER}, {CONSTANTS}")):
        comes = iter(source(paths, cache_dir).map(fn).batch(8).apply(tfquiver.one_stream("s")))
        expected = f"^stream 's', epoch 0, batch 0: it has another pipeline here: {said}"
        with pytest.raises(errors.InvalidArgumentError, match=expected):
            next(comes)
    assert sum(1 for _ in there) == 24, "the others go on"


def test_data_order_and_elements_are_named(paths: list[Path], cache_dir: Path) -> None:
    there = iter(source(paths, cache_dir).batch(8).apply(tfquiver.one_stream("s")))
    next(there)
    for comes, said in (
        (source(paths[:1], cache_dir).batch(8), "here: other data, other constants"),
        (source(paths, cache_dir, order=tfquiver.Deterministic(4)).batch(8), "here: another order of the data. All"),
        (source(paths, cache_dir).batch(8, drop_remainder=True), "here: elements of another structure"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=said):
            next(iter(comes.apply(tfquiver.one_stream("s"))))
    del there


def source(paths: list[Path], cache_dir: Path, **given: Any) -> tf.data.Dataset:
    return tfquiver.dataset(paths, cache_dir=cache_dir, **{"order": tfquiver.Deterministic(3)} | given)


_SCRIPT = """
import tensorflow as tf
from tfquiver.tensorflow_client.shared_batches import pipeline_graph

def parse(record):
    columns = {name: tf.io.FixedLenFeature([], tf.string) for name in {"image", "label", "text", "more"}}
    found = tf.io.parse_single_example(record, columns)
    total = sum(tf.strings.length(found[name]) for name in sorted({"image", "label", "text", "more"}))
    image = tf.numpy_function(lambda one: one, [found["image"]], tf.string)
    picked = tf.while_loop(lambda at: at < total, lambda at: [at + 1], [0])[0]
    parts = {name: tf.strings.lower(found[name]) for name in {"image", "label", "text", "more"}}
    return image, total, picked, parts

data = tf.data.Dataset.from_tensor_slices(["a", "b"]).map(parse, num_parallel_calls=2).shuffle(3, seed=4).batch(2)
graph = pipeline_graph.of_dataset(data)
print(graph.transformations().hex(), graph.all().hex())
"""


@pytest.mark.long
def test_every_process_of_one_script_finds_the_same() -> None:
    """Also where Python goes through a set in another order each time."""
    found = set()
    for seed in ("1", "2", "3"):
        run = subprocess.run(
            [sys.executable, "-c", _SCRIPT], env={**tensorflow_env(), "PYTHONHASHSEED": seed},
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        found.add(run.stdout)
    assert len(found) == 1
