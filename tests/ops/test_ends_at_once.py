"""An iterator that is dropped is gone at once, whatever TensorFlow's tuning thread waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfquiver
from tests.ops.conftest import MakeNode, numbered
from tests.support import tf_service
from tests.support.cluster import wait_until
from tests.support.op_source import OpSource, drop_iterators
from tfquiver.ops.compiling_and_loading import loader
from tfquiver.tensorflow_client.tf_source import EndsAtOnce

# TensorFlow wakes that thread too early for about one iterator of six, busy machine or not.
ITERATORS = 30
LIVED_S = 6.0  # by then it waits for some 5 s; after two minutes, for one
AT_ONCE_S = 2.0


@pytest.mark.parametrize("behind", ["nothing", "prefetch"])
def test_an_iterator_is_gone_at_once(make_node: MakeNode, behind: str) -> None:
    make_node(numbered(20, 50))
    data = OpSource()
    if behind == "prefetch":
        data = data.prefetch(2)
    took_s = longest_drops_s(data)
    assert max(took_s) < AT_ONCE_S, took_s


def longest_drops_s(data: tf.data.Dataset) -> list[float]:
    """Of iterators that have been read for a while: what letting go of them took those that took longest."""
    iterators = [iter(data) for _ in range(ITERATORS)]
    until_s = time.monotonic() + LIVED_S
    while time.monotonic() < until_s:
        for iterator in iterators:
            next(iterator)
        time.sleep(0.05)  # a training step
    took_s = []
    while iterators:
        began_s = time.monotonic()
        iterators.pop()
        took_s.append(time.monotonic() - began_s)
    drop_iterators()
    return sorted(took_s)[-5:]


@pytest.mark.long
@pytest.mark.parametrize(
    "behind",
    [
        lambda data: data.batch(20),
        lambda data: data.take(990),
        lambda data: data.map(tf.strings.length).batch(20).prefetch(2),
    ],
    ids=["batch", "take", "map, batch, prefetch"],
)
def test_so_is_one_whose_source_has_gone_before(
    make_node: MakeNode, behind: Callable[[tf.data.Dataset], tf.data.Dataset]
) -> None:
    """At the end of the data, long before the iterator itself."""
    make_node(numbered(20, 50))
    data = behind(OpSource())
    iterators = [iter(data) for _ in range(ITERATORS)]
    for iterator in iterators:
        next(iterator)
    time.sleep(LIVED_S)  # a long validation between two batches
    took_s = []
    while iterators:
        for _ in iterators[-1]:
            pass
        began_s = time.monotonic()
        iterators.pop()
        took_s.append(time.monotonic() - began_s)
    assert max(took_s) < AT_ONCE_S, sorted(took_s)[-5:]


@pytest.mark.long
def test_so_is_one_of_what_workers_deliver() -> None:
    """The trainer's source is tf.data service's then."""
    loader.load()
    head = tf.data.experimental.service.DispatchServer()
    address = head.target.split("://")[1]
    hand = tf_service.worker(address)
    try:
        data = tf.data.Dataset.range(1 << 40).apply(tfquiver.distribute(address)).prefetch(2)
        took_s = longest_drops_s(data)
    finally:
        tf_service.stop(hand)
        head._stop()
    assert max(took_s) < AT_ONCE_S, took_s


def test_nothing_of_a_data_set_changes_but_that() -> None:
    numbers = tf.data.Dataset.range(7)
    stock = numbers.map(lambda n: {"n": n, "ragged": tf.RaggedTensor.from_row_lengths(tf.range(n), [n]), "none": ()})
    stock = stock.with_options(_sloppy())
    data = EndsAtOnce(stock, loader.load())
    assert data.element_spec == stock.element_spec
    assert data.cardinality().numpy() == 7
    assert data.options() == stock.options()
    assert [str(element) for element in data] == [str(element) for element in stock]


def test_a_checkpoint_goes_on_behind_it(tmp_path: Path) -> None:
    iterator = iter(EndsAtOnce(tf.data.Dataset.range(100).shuffle(10, seed=3), loader.load()))
    before = [next(iterator).numpy() for _ in range(30)]
    saved = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "checkpoint"))
    rest = [element.numpy() for element in iterator]
    again = iter(EndsAtOnce(tf.data.Dataset.range(100).shuffle(10, seed=3), loader.load()))
    tf.train.Checkpoint(iterator=again).restore(saved).assert_consumed()
    assert [element.numpy() for element in again] == rest
    assert sorted(before + rest) == list(range(100))


def test_it_is_known_how_many_iterators_wait_and_for_how_long() -> None:
    library, go_on = loader.load(), threading.Event()

    def held(number: Any) -> Any:
        go_on.wait(30)
        return number

    numbers = tf.data.Dataset.range(2).map(lambda n: tf.py_function(held, [n], tf.int64))
    data, other = EndsAtOnce(numbers, library, "held"), EndsAtOnce(numbers, library)
    assert library.waiting("held", 0.0) == (0, 0.0)
    with ThreadPoolExecutor(3) as threads:
        taken = [threads.submit(list, one) for one in (data, data, other)]
        try:
            wait_until(lambda: library.waiting("held", 0.1)[0] == 2, "both wait")
            assert library.waiting("held", 0.1)[1] >= 0.1
            assert library.waiting("held", 60.0) == library.waiting("", 0.0) == library.waiting("else", 0.0) == (0, 0.0)
        finally:
            go_on.set()
        assert [len(one.result(30)) for one in taken] == [2, 2, 2]
    assert library.waiting("held", 0.0) == (0, 0.0)
    assert list(EndsAtOnce(tf.data.Dataset.range(3), library, "held")) == [0, 1, 2]


def _sloppy() -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = False
    return options
