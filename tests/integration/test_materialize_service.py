"""Derived data sets through workers of tf.data service: computed once, and every record once, by any of its ways."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.support import materializing, numbered
from tests.support.cluster import Cluster
from tests.support.op_source import drop_iterators
from tfquiver.materializing import computer
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc

FILES, RECORDS = 3, 60
TOTAL = FILES * RECORDS
ALL = list(range(TOTAL))
paths = numbered.fixture(FILES, RECORDS, 500)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each worker has a node of its own, the trainer a third one: only there shards can be computed again."""
    with Cluster(tmp_path_factory.mktemp("cluster"), workers=2, shared_node=False) as running:
        yield running
        drop_iterators()
        endpoints.close_all()


@pytest.fixture
def derived(cluster: Cluster, paths: list[Path]) -> Callable[..., tf.data.Dataset]:
    def made(fn: Callable[..., Any], name: str = "kept", **more: Any) -> tf.data.Dataset:
        data = tfquiver.dataset(
            paths,
            service=cluster.coordinator.address,
            cache_dir=cluster.cache_dir,
            first_use=materializing.first_use(),
            **more,
        )
        return data.apply(tfquiver.materialize(fn, name=name))

    return made


def stock(cluster: Cluster) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    assert cluster.dispatcher is not None
    service = tf.data.experimental.service
    return service.distribute(service.ShardingPolicy.DYNAMIC, f"grpc://{cluster.dispatcher.address}")


def ours(cluster: Cluster, **arguments: Any) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    assert cluster.dispatcher is not None
    return tfquiver.distribute(cluster.dispatcher.address, **arguments)


def clear(cluster: Cluster) -> None:
    """All nodes lose all that they have."""
    own = [cluster.cache_dir.with_name(f"worker-{number}-cache") for number in range(len(cluster.workers))]
    for directory in (cluster.cache_dir, *own):
        with grpc.insecure_channel(read_endpoint(directory).control) as channel:
            node_pb2_grpc.NodeStub(channel).Clear(node_pb2.ClearRequest(), timeout=10)


def numbers_of(data: tf.data.Dataset) -> list[int]:
    return sorted(int(one) for element in data for one in np.reshape(element, -1))


def test_workers_read_what_was_computed_once(
    cluster: Cluster, derived: Callable[..., tf.data.Dataset], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    fn = materializing.counted(calls)
    for data in (derived(fn), derived(fn, batch_size=8)):
        for way in (stock(cluster), ours(cluster)):
            assert numbers_of(data.apply(way)) == ALL
    assert materializing.calls_in(calls) == TOTAL


def test_what_nodes_have_lost_is_computed_for_workers(
    cluster: Cluster, derived: Callable[..., tf.data.Dataset], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    data = derived(materializing.counted(calls), name="lost")
    clear(cluster)
    through = data.apply(ours(cluster))
    del data
    gc.collect()
    assert numbers_of(through) == ALL
    assert materializing.calls_in(calls) == 2 * TOTAL
    assert numbers_of(through) == ALL
    assert materializing.calls_in(calls) == 2 * TOTAL, "their owners keep them again"


def test_what_nobody_can_compute_any_more_is_said_soon(
    cluster: Cluster, derived: Callable[..., tf.data.Dataset], tmp_path: Path
) -> None:
    """A store that is away is tried for two minutes; here each node knows that nobody is there."""
    data = derived(materializing.counted(tmp_path / "calls"), name="gone").apply(ours(cluster))
    computer.close_all()
    clear(cluster)
    began_s = time.monotonic()
    with pytest.raises(tf.errors.NotFoundError, match=r"has data set gone from tfquiver\.materialize"):
        numbers_of(data)
    took_s = time.monotonic() - began_s
    print(f"said after {took_s:.1f} s")
    assert took_s < 100


def test_every_record_exactly_once(cluster: Cluster, derived: Callable[..., tf.data.Dataset], tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    fn = materializing.counted(calls)
    once = ours(cluster, guarantee="exactly_once")
    assert numbers_of(derived(fn).apply(once)) == ALL
    assert numbers_of(derived(fn, batch_size=8).apply(once)) == ALL
    more = ours(cluster, guarantee="exactly_once", transform=lambda number: number + 1)
    assert numbers_of(derived(fn, batch_size=8).apply(more)) == [number + 1 for number in ALL]
    assert materializing.calls_in(calls) == TOTAL
