"""`tfquiver.explain_input` on real pipelines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tensorflow as tf

import tfquiver
from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tfquiver.cli.main import main
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint

paths = numbered.fixture(files=2, records_a_file=400, record_bytes=2000)


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    endpoints.close_all()
    main(["stop", str(tmp_path / "cache"), "--force"])


def slow(records: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies([tf.py_function(lambda: time.sleep(0.01), [], [])]):
        return tf.identity(records)


def test_a_slow_function_is_named_with_what_to_do(cache_dir: Path, paths: list[Path]) -> None:
    data = tfquiver.dataset(paths, cache_dir=cache_dir, batch_size=8).map(slow)
    told = tfquiver.explain_input(data, seconds=2.0)
    assert next(iter(told.shares)) == "Map (slow)"
    assert "Map (slow) runs in one thread" in told.advice[0]
    assert any(".prefetch(" in one for one in told.advice)
    assert 0 < told.elements_per_s < 100
    assert "waits for records" in told.shares, "the readers have told"


def test_it_looks_for_as_long_as_it_is_asked_to(cache_dir: Path, paths: list[Path]) -> None:
    """And while it waits for what readers tell, and asks, what it has measured does not change."""
    data = tfquiver.dataset(paths, cache_dir=cache_dir, batch_size=8).map(slow)
    told = tfquiver.explain_input(data, seconds=1.0)
    assert 1.0 <= told.seconds < 2.0
    assert "waits for records" in told.shares, "the readers have told"


def test_what_a_fast_pipeline_waits_for_is_known_in_time(cache_dir: Path, paths: list[Path]) -> None:
    """Its epochs take less than a tenth of a second: many are told with one heartbeat."""
    told = tfquiver.explain_input(tfquiver.dataset(paths, cache_dir=cache_dir, batch_size=8), seconds=2.0)
    assert "waits for records" in told.shares
    assert told.seconds < 5.0


def test_its_epoch_is_found_among_those_of_many_others(cache_dir: Path, paths: list[Path]) -> None:
    """It was looked for among the newest of the whole cluster."""
    data = tfquiver.dataset(paths, cache_dir=cache_dir, batch_size=1).map(slow)
    node = read_endpoint(cache_dir)
    dataset = data._input_dataset._tfquiver_origin.registered
    with ThreadPoolExecutor(1) as pool:
        explained = pool.submit(tfquiver.explain_input, data, 1.0)
        wait_until(lambda: node_calls.sessions(node.coordinator), "it reads")
        for number in range(150):
            node_calls.ticket(node.coordinator, dataset, f"another-{number}")
        told = explained.result(60)
    assert len(node_calls.sessions(node.coordinator)) > 150, "they are newer"
    assert "waits for records" in told.shares
    assert told.seconds < 7.0, "the epoch takes eight seconds: it was not the next one"


def test_what_cannot_be_explained_is_said(cache_dir: Path, paths: list[Path]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="none is in it"):
        tfquiver.explain_input(tf.data.Dataset.range(3))
    one, other = (tfquiver.dataset(paths, cache_dir=cache_dir) for _ in range(2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="2 are in it"):
        tfquiver.explain_input(tf.data.Dataset.zip((one, other)))
    for given in ({"resume": True, "job": "run"}, {"stream": "epoch"}):
        with pytest.raises(tf.errors.InvalidArgumentError, match="would be missing"):
            tfquiver.explain_input(tfquiver.dataset(paths, cache_dir=cache_dir, **given))  # type: ignore[arg-type]
    for seconds in (0.0, float("nan"), "2"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="seconds"):
            tfquiver.explain_input(one, seconds=seconds)  # type: ignore[arg-type]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be a tf.data.Dataset, not of type str"):
        tfquiver.explain_input("gs://bucket/train-*")  # type: ignore[arg-type]
    with pytest.raises(tf.errors.InvalidArgumentError, match="no elements"):
        tfquiver.explain_input(one.take(0))
