"""Elements of every kind through TensorFlow's own dispatcher, worker and client, by the protocol `tfquiver`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import tensorflow as tf

from tests.support import tf_service
from tfquiver.ops.compiling_and_loading import tensorflows, transport

pytestmark = pytest.mark.skipif(
    not tensorflows.transport_name(tf.__version__), reason="this TensorFlow has no transport library"
)
SERVICE = tf.data.experimental.service


@contextmanager
def service(workers: int = 1, protocol: str = transport.PROTOCOL) -> Iterator[str]:
    """The dispatcher's target."""
    head = SERVICE.DispatchServer()
    hands = [tf_service.worker(head.target.split("://")[1], protocol) for _ in range(workers)]
    try:
        yield head.target
    finally:
        tf_service.stop(*hands)
        head._stop()


def read(target: str, dataset: tf.data.Dataset, compression: str | None = None, **more: object) -> tf.data.Dataset:
    more.setdefault("data_transfer_protocol", transport.PROTOCOL)
    return dataset.apply(SERVICE.distribute(SERVICE.ShardingPolicy.OFF, target, compression=compression, **more))


def received() -> int:
    loaded = transport.load()
    assert loaded is not None
    return loaded.counts().elements_received


NUMBERS = [
    tf.bool, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64, tf.bfloat16, tf.float16,
    tf.float32, tf.float64, tf.complex64, tf.complex128, tf.qint8,
]  # fmt: skip


def numbers(i: tf.Tensor) -> tuple[tf.Tensor, ...]:
    return tuple(tf.bitcast(tf.cast([i, 1], tf.int8), d) if d == tf.qint8 else tf.cast([i, 1], d) for d in NUMBERS)


CASES: dict[str, Callable[[tf.Tensor], object]] = {
    "numbers": numbers,
    "strings": lambda i: (tf.strings.as_string(i), tf.repeat(tf.strings.as_string(i), 300), tf.constant([], tf.string)),
    "long strings": lambda i: tf.strings.join([tf.strings.as_string(i), tf.constant("x" * 100_000)]),
    "nothing in it": lambda i: (i, tf.zeros([0, 4]), tf.zeros([3, 0], tf.string)),
    "ragged": lambda i: tf.ragged.range(tf.stack([i % 3, i % 5])),
    "sparse": lambda i: tf.sparse.SparseTensor(tf.reshape(i, [1, 1]), [1.5], [1000]),
    "large": lambda i: tf.fill([1 << 20], i),
}


def plain(value: object) -> object:
    return [np.asarray(part).tolist() for part in tf.nest.flatten(value, expand_composites=True)]


@pytest.mark.parametrize("compression", [None, "AUTO"])
@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_element_arrives_as_it_was(case: str, compression: str | None) -> None:
    dataset = tf.data.Dataset.range(20).map(CASES[case])
    before = received()
    with service() as target:
        got = [plain(element) for element in read(target, dataset, compression)]
    assert got == [plain(element) for element in dataset]
    assert received() == before + 20


def test_each_of_two_workers_gives_its_elements() -> None:
    dataset = tf.data.Dataset.range(50).map(lambda i: tf.repeat(tf.strings.as_string(i), 1000))
    with service(2) as target:
        got = sorted(int(element[999]) for element in read(target, dataset))
    assert got == sorted([*range(50), *range(50)])


def test_an_error_of_the_pipeline_reaches_the_trainer_once() -> None:
    """Not asked again by gRPC, behind the error."""
    dataset = tf.data.Dataset.range(10).map(lambda i: tf.debugging.check_numerics(1 / (i - 3), "is infinite"))
    with service() as target:
        iterator = iter(read(target, dataset))
        with pytest.raises(tf.errors.InvalidArgumentError, match="is infinite"):
            for _ in range(10):
                next(iterator)


def test_coordinated_readers_are_in_step() -> None:
    """Each in a thread of its own: a round is given out when all have asked for it."""
    dataset = tf.data.Dataset.range(6).repeat()

    def consume(target: str, index: int) -> list[int]:
        mine = read(target, dataset, job_name="in step", num_consumers=2, consumer_index=index)
        return [int(element) for element in mine.take(12)]

    with service() as target, ThreadPoolExecutor(2) as pool:
        both = [pool.submit(consume, target, index) for index in (0, 1)]
        rows = [one.result(60) for one in both]
    assert rows == [[(2 * row + index) % 6 for row in range(12)] for index in (0, 1)]


def test_trainers_that_share_a_cache_see_everything() -> None:
    cache = SERVICE.CrossTrainerCache
    dataset = tf.data.Dataset.range(1000).repeat()
    with service() as target:
        for trainer in ("a", "b"):
            shared = read(target, dataset, job_name="shared", cross_trainer_cache=cache(trainer_id=trainer))
            assert [int(element) for element in shared.take(100)] == list(range(100))


def test_trainers_share_a_job() -> None:
    dataset = tf.data.Dataset.range(500)
    with service(2) as target:
        both = [read(target, dataset, job_name="one").as_numpy_iterator() for _ in range(2)]
        first = [next(both[0]), next(both[1])]
        rest = [int(element) for reader in both for element in reader]
    assert sorted(first + rest) == sorted([*range(500), *range(500)])


def test_an_iterator_may_be_left_and_its_elements_outlive_everything() -> None:
    with service() as target:
        dataset = read(target, tf.data.Dataset.range(1000).map(lambda i: tf.fill([1 << 18], i)))
        kept = [element for element, _ in zip(dataset, range(5), strict=False)]
    assert [int(tf.reduce_max(element)) for element in kept] == [0, 1, 2, 3, 4]
    assert [int(tf.reduce_sum(element + 1)) for element in kept] == [(i + 1) << 18 for i in range(5)]


def test_a_worker_that_does_not_offer_the_protocol_is_an_error() -> None:
    """TensorFlow's client goes on by gRPC only where a worker's transport does not answer (decision 0050)."""
    with service(protocol="grpc") as target, pytest.raises(tf.errors.NotFoundError, match="tfquiver"):
        next(iter(read(target, tf.data.Dataset.range(10))))
