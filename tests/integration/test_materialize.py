"""`tfquiver.materialize`: preprocessed once for all jobs and epochs, and the same as `map` would have given."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.support import materializing, numbered
from tests.support.cluster import wait_until
from tests.support.daemons import end_daemons
from tfquiver import errors
from tfquiver.node_daemon_and_notes_in_directories import daemon as local
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, node_pb2, node_pb2_grpc, types_pb2

FILES, RECORDS = 3, 60
TOTAL = FILES * RECORDS
paths = numbered.fixture(FILES, RECORDS, 500)


class _NoOp:
    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None: ...


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("shared") / "cache"
    stays = functools.partial(local.find_or_start, directory, 1 << 30, idle_exit_s=600)  # also where tests are slow
    endpoints.acquire("module", stays, _NoOp())
    yield directory
    endpoints.close_all()
    end_daemons(directory)


@pytest.fixture
def source(paths: list[Path], cache_dir: Path) -> Callable[..., tf.data.Dataset]:
    def made(**more: Any) -> tf.data.Dataset:
        return tfquiver.dataset(paths, cache_dir=cache_dir, first_use=materializing.first_use(), **more)

    return made


def number_of(record: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_raw(tf.strings.substr(record, 0, 8), tf.int64)[0]


def node_calls(cache_dir: Path) -> tuple[node_pb2_grpc.NodeStub, grpc.Channel]:
    endpoint = local.find(cache_dir)
    assert endpoint is not None
    channel = grpc.insecure_channel(endpoint.control)
    return node_pb2_grpc.NodeStub(channel), channel


def test_explain_says_what_computing_took(source: Callable[..., tf.data.Dataset], cache_dir: Path) -> None:
    def busy(record: tf.Tensor) -> tf.Tensor:
        matrix = tf.cast(tf.strings.length(record), tf.float32) * tf.ones([200, 200])
        return number_of(record), tf.cast(tf.reduce_sum(tf.linalg.matmul(matrix, matrix)), tf.int64)

    made = source().apply(tfquiver.materialize(busy, name="busy"))
    iterator = made.as_numpy_iterator()
    next(iterator)
    endpoint = local.find(cache_dir)
    assert endpoint is not None
    with grpc.insecure_channel(endpoint.coordinator) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        wait_until(lambda: "of CPU, reading" in explained(stub), "a plan")
        told = json.loads(explained(stub))
    computed = told["computed"]
    assert computed["pays"]
    assert computed["cpu_s"] > computed["saved_cpu_s"] > 0.5 * computed["cpu_s"]
    assert computed["made_bytes"] > TOTAL * 16
    assert computed["input_bytes"] > TOTAL * 8
    assert computed["shards"] > 5  # all of them
    assert len([*iterator]) == TOTAL - 1


def explained(stub: coordinator_pb2_grpc.CoordinatorStub) -> str:
    try:
        return str(stub.Explain(pb.ExplainRequest(name="busy"), timeout=10).json)
    except grpc.RpcError:
        return ""


def test_epochs_jobs_and_processes_compute_once(
    source: Callable[..., tf.data.Dataset], cache_dir: Path, paths: list[Path], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    others = [materializing.start(cache_dir, calls, paths) for _ in range(2)]
    data = source().apply(tfquiver.materialize(materializing.counted(calls)))
    for _ in range(2):
        assert sorted(data.as_numpy_iterator()) == list(range(TOTAL))
    assert [materializing.outcome(process) for process in others] == [TOTAL, TOTAL]
    assert materializing.calls_in(calls) == TOTAL
    later = source(batch_size=7).apply(tfquiver.materialize(materializing.counted(calls), check=1))
    assert sorted(np.concatenate(list(later.as_numpy_iterator()))) == list(range(TOTAL))
    checked = materializing.calls_in(calls) - TOTAL
    assert 0 < checked < TOTAL / 2, "one shard was computed again, and compared"


def test_what_differs_shares_nothing(source: Callable[..., tf.data.Dataset], tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def plus(captured: Any) -> Callable[[tf.Tensor], tf.Tensor]:
        def fn(record: tf.Tensor) -> tf.Tensor:
            return materializing.counted(calls)(record) + captured

        return fn

    seen = 0
    for fn, version, first in (
        (plus(tf.constant(1, tf.int64)), "", 1),
        (plus(tf.constant(2, tf.int64)), "", 2),
        (plus(tf.constant(2, tf.int64)), "b", 2),
        (plus(np.int64(3)), "", 3),
    ):
        data = source().apply(tfquiver.materialize(fn, version=version))
        assert sorted(data.as_numpy_iterator()) == list(range(first, TOTAL + first))
        seen += TOTAL
        assert materializing.calls_in(calls) == seen
    again = source().apply(tfquiver.materialize(plus(tf.constant(2, tf.int64)), version="b"))
    assert sorted(again.as_numpy_iterator()) == list(range(2, TOTAL + 2))
    assert materializing.calls_in(calls) == seen


def _any(record: tf.Tensor) -> Any:
    number = number_of(record)
    some = tf.range(number % 5)
    return {
        "ragged": tf.RaggedTensor.from_row_lengths(tf.range(number % 7), [number % 7, 0]),
        "sparse": tf.sparse.from_dense(tf.stack([number, 0, number])),
        "strings": tf.strings.as_string(some),
        "number": number,
    }


def _fixed(record: tf.Tensor) -> Any:
    number = number_of(record)
    floats = tf.cast(tf.fill([2, 3], number), tf.float32)
    return (
        (tf.cast(number % 256, tf.uint8), floats),
        {"half": tf.cast(floats, tf.bfloat16), "odd": number % 2 == 1, "int8": tf.cast(number % 100, tf.int8)},
        tf.complex(floats, -floats)[0],
    )


def _text(record: tf.Tensor) -> tf.Tensor:
    return tf.strings.as_string(number_of(record))


def _list(record: tf.Tensor) -> Any:
    return [number_of(record), number_of(record) + 1]


def _odd(record: tf.Tensor) -> Any:
    """Of one shape, and not of what the op knows."""
    return {"unsigned": tf.cast(number_of(record), tf.uint32), "empty": tf.zeros([0, 2])}


def comparable(elements: Iterable[Any]) -> list[str]:
    return sorted(
        repr(tf.nest.map_structure(lambda one: one.numpy(), element, expand_composites=True)) for element in elements
    )


def rows_of(data: tf.data.Dataset) -> Iterator[Any]:
    """`unbatch` of TensorFlow 2.21 ends the process where a tensor is empty."""
    for batch in data:
        for row in range(len(tf.nest.flatten(batch)[0])):
            yield tf.nest.map_structure(lambda one, row=row: one[row], batch)


@pytest.mark.parametrize("fn", [_any, _fixed, _text, _list])
def test_elements_are_those_of_map(source: Callable[..., tf.data.Dataset], fn: Callable[..., Any]) -> None:
    plain, kept = source().map(fn), source().apply(tfquiver.materialize(fn))
    assert kept.element_spec == plain.element_spec
    assert kept.cardinality() == TOTAL
    assert comparable(kept) == comparable(plain)


@pytest.mark.parametrize("fn", [_fixed, _odd, _text, _list])
def test_what_is_of_one_shape_comes_in_batches(source: Callable[..., tf.data.Dataset], fn: Callable[..., Any]) -> None:
    data = source(batch_size=7).apply(tfquiver.materialize(fn))
    assert data.element_spec == source().map(fn).batch(7).element_spec
    assert comparable(rows_of(data)) == comparable(source().map(fn))
    whole = source(batch_size=8, drop_remainder=True).apply(tfquiver.materialize(fn))
    assert whole.element_spec == source().map(fn).batch(8, drop_remainder=True).element_spec
    assert len(list(whole)) == TOTAL // 8


@pytest.mark.parametrize("batch_size", [0, 7])
def test_positions_come_beside_elements(source: Callable[..., tf.data.Dataset], batch_size: int) -> None:
    order = tfquiver.Deterministic(3, with_position=True)
    data = source(batch_size=batch_size or None, order=order).apply(tfquiver.materialize(_fixed))
    assert data.element_spec[1] == (source().map(_fixed).batch(7) if batch_size else source().map(_fixed)).element_spec
    positions, numbers = [], []
    for position, element in data:
        positions += np.ravel(position).tolist()
        numbers += np.ravel(element[0][1][..., 0, 0]).tolist()
    assert positions == list(range(TOTAL))
    assert sorted(numbers) == list(range(TOTAL))


def _set(cache_dir: Path, name: str, mode: types_pb2.CacheMode.ValueType) -> None:
    """So that no policy probes the job, or finds that it need not be kept: both are computed past the cache."""
    endpoint = local.find(cache_dir)
    assert endpoint is not None
    with grpc.insecure_channel(endpoint.coordinator) as channel:
        coordinator = coordinator_pb2_grpc.CoordinatorStub(channel)
        found = coordinator.FindDataset(pb.FindDatasetRequest(name=name), timeout=10)
        setting = types_pb2.CacheSetting(mode=mode)
        coordinator.SetCache(pb.SetCacheRequest(digest_id=found.digest_id, setting=setting), timeout=10)


def test_what_is_lost_is_computed_again_while_it_is_read(
    source: Callable[..., tf.data.Dataset], cache_dir: Path, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    data = source().apply(tfquiver.materialize(materializing.counted(calls), name="lost"))
    assert materializing.calls_in(calls) == TOTAL
    _set(cache_dir, "lost", types_pb2.CACHE_MODE_UNIFORM)
    node, channel = node_calls(cache_dir)
    with channel:
        before = node.Status(node_pb2.StatusRequest(), timeout=10).computed
        node.Clear(node_pb2.ClearRequest(), timeout=10)
        assert sorted(data.as_numpy_iterator()) == list(range(TOTAL))
        assert materializing.calls_in(calls) == 2 * TOTAL
        assert node.Status(node_pb2.StatusRequest(), timeout=10).computed > before
    assert sorted(data.as_numpy_iterator()) == list(range(TOTAL))
    assert materializing.calls_in(calls) == 2 * TOTAL, "it was kept again"


def test_where_nothing_is_kept_it_is_computed_as_it_is_read(
    source: Callable[..., tf.data.Dataset], cache_dir: Path, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    data = source().apply(tfquiver.materialize(materializing.counted(calls), name="none"))
    _set(cache_dir, "none", types_pb2.CACHE_MODE_NONE)
    node, channel = node_calls(cache_dir)
    with channel:
        node.Clear(node_pb2.ClearRequest(), timeout=10)
        assert sorted(data.as_numpy_iterator()) == list(range(TOTAL))
        assert materializing.calls_in(calls) == 2 * TOTAL


def test_a_random_function_is_drawn_anew_when_it_has_been_used_so_often(source: Callable[..., tf.data.Dataset]) -> None:
    def noise(record: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return tf.random.stateless_uniform([], seed)

    draws = []
    for _ in range(5):
        data = source().apply(tfquiver.materialize(noise, allow_random=2))
        draws.append(sorted(data.as_numpy_iterator()))
        del data
    assert draws[0] == draws[1] != draws[2] == draws[3] != draws[4]
    assert all(len(set(draw)) == TOTAL for draw in draws)


def _random(record: tf.Tensor) -> tf.Tensor:
    return tf.random.uniform([])


def _python(record: tf.Tensor) -> tf.Tensor:
    return tf.py_function(lambda one: one, [record], tf.string)


def _inner(record: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.strings.length(record) > 3, lambda: tf.random.normal([]), lambda: 0.0)


@functools.cache  # made when it is used: no thread of TensorFlow's starts while tests are imported
def _variable() -> tf.Variable:
    with tf.init_scope():
        return tf.Variable(3.0, name="weights")


def _captures(record: tf.Tensor) -> tf.Tensor:
    return _variable() + 1.0


def _datasets(record: tf.Tensor) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(record)


def _nothing(record: tf.Tensor) -> None:
    # AutoGraph can read it: of what it cannot it logs why, and the log would keep the error, and what that holds.
    return None


def _nothing_beside(record: tf.Tensor) -> tuple[tf.Tensor, None]:
    return record, None


def _outside(record: tf.Tensor) -> tf.Tensor:
    return tf.io.read_file("/etc/hostname")


def _raises(record: tf.Tensor) -> float:
    return 1 / 0


def _fails(record: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_raw(record, tf.int64)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (_random, "RandomUniform.*random.*allow_random"),
        (_inner, "RandomStandardNormal.*random"),
        (_python, "EagerPyFunc"),
        (_captures, "captures variable 'weights:0' of resource"),
        (_nothing, "fn _nothing returns no tensors"),
        (lambda record: tf.quantization.quantize([1.0], 0.0, 255.0, tf.quint8)[0], "quint8.*cannot be kept"),
        (_datasets, "neither a Dataset"),
        (_nothing_beside, "fn returns None in .*leave it out"),
        (_outside, "ReadFile"),
        (_raises, "ZeroDivisionError"),
        (_fails, r"^shard \d+ \(file.*part-00\d.*\): record \d+ of it: fn _fails: Input to DecodeRaw has length 500"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(source: Callable[..., tf.data.Dataset], fn: Callable[..., Any], words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words) as raised:
        source().apply(tfquiver.materialize(fn))
    assert isinstance(raised.value, tf.errors.InvalidArgumentError)


def test_where_it_stands_and_its_arguments_are_checked(source: Callable[..., tf.data.Dataset]) -> None:
    for wrong, words in (({"allow_random": 0}, "allow_random"), ({"check": -1}, "check"), ({"version": 3}, "version")):
        with pytest.raises(errors.InvalidArgumentError, match=words):
            tfquiver.materialize(number_of, **wrong)
    done = source(batch_size=4).apply(tfquiver.materialize(number_of))
    for data in (tf.data.Dataset.range(3), source().map(lambda record: record), done):
        with pytest.raises(errors.InvalidArgumentError, match="nothing in between"):
            data.apply(tfquiver.materialize(number_of))
    parsed = source(batch_size=4, parse={"x": tf.io.FixedLenFeature([], tf.int64)})
    with pytest.raises(errors.InvalidArgumentError, match="parse="):
        parsed.apply(tfquiver.materialize(number_of))
    with pytest.raises(errors.InvalidArgumentError, match="batch_size=4"):
        source(batch_size=4).apply(tfquiver.materialize(_any))
