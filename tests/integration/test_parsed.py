"""parse= of tfquiver.dataset as users write it: in the trainer, in workers, and with every guarantee."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfquiver
from tests.support.cluster import Cluster
from tests.support.op_source import drop_iterators
from tests.support.records import stream
from tfquiver import errors
from tfquiver.cli.main import main

FILES, RECORDS = 3, 400
ALL = list(range(FILES * RECORDS))
SMALL_SHARDS = tfquiver.FirstUse(cut=tfquiver.CutPolicy(5_000, 10_000, 20_000))
FIXED = {"n": tf.io.FixedLenFeature([], tf.int64), "name": tf.io.FixedLenFeature([], tf.string)}
SOME = {"n": tf.io.FixedLenFeature([], tf.int64), "few": tf.io.VarLenFeature(tf.int64)}
RAGGED = {"n": tf.io.FixedLenFeature([], tf.int64), "few": tf.io.RaggedFeature(tf.int64)}


def example(number: int) -> bytes:
    features = {
        "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "few": tf.train.Feature(int64_list=tf.train.Int64List(value=[number] * (number % 3))),
        "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[f"the record of number {number}".encode()])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("data")
    for file in range(FILES):
        payloads = map(example, range(file * RECORDS, (file + 1) * RECORDS))
        (folder / f"part-{file}.tfrecord").write_bytes(stream(payloads))
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


def made(cluster: Cluster, paths: list[Path], parse: Any, **arguments: Any) -> tf.data.Dataset:
    where = {"service": cluster.coordinator.address, "cache_dir": cluster.cache_dir, "first_use": SMALL_SHARDS}
    return tfquiver.dataset(paths, **where, batch_size=7, parse=parse, **arguments)


def numbers_of(dataset: tf.data.Dataset) -> list[int]:
    """Of all elements; asserts that features of a record stayed together."""
    found: list[int] = []
    for batch in dataset:
        numbers = batch["n"].numpy().tolist()
        if "name" in batch:
            assert batch["name"].numpy().tolist() == [f"the record of number {n}".encode() for n in numbers]
        if "few" in batch:
            few = batch["few"]
            if isinstance(few, tf.SparseTensor):
                few = tf.RaggedTensor.from_sparse(few)
            assert few.to_list() == [[n] * (n % 3) for n in numbers]
        found += numbers
    return found


@pytest.mark.parametrize("parse", [FIXED, SOME, RAGGED], ids=["fixed", "sparse", "ragged"])
def test_every_record_once_in_the_trainer_and_through_workers(cluster: Cluster, paths: list[Path], parse: Any) -> None:
    assert cluster.dispatcher is not None
    source = made(cluster, paths, parse)
    assert source.cardinality().numpy() == -(-len(ALL) // 7)
    assert sorted(numbers_of(source)) == ALL
    assert sorted(numbers_of(source.apply(tfquiver.distribute(cluster.dispatcher.address)))) == ALL


def test_exactly_once_of_what_has_the_same_length_in_every_record(cluster: Cluster, paths: list[Path]) -> None:
    assert cluster.dispatcher is not None
    once = tfquiver.distribute(cluster.dispatcher.address, guarantee="exactly_once")
    assert sorted(numbers_of(made(cluster, paths, FIXED).apply(once))) == ALL
    with pytest.raises(errors.InvalidArgumentError, match="only FixedLenFeature"):
        made(cluster, paths, SOME).apply(once)


def test_orders_are_as_without(cluster: Cluster, paths: list[Path]) -> None:
    files = made(cluster, paths, FIXED, order="files", reading=tfquiver.Reading(parse_threads=2))
    assert numbers_of(files) == ALL
    numbered = tfquiver.Deterministic(3, with_position=True)
    for parse in (FIXED, RAGGED):
        pairs = list(made(cluster, paths, parse, order=numbered))
        assert list(itertools.chain(*(positions.numpy() for positions, _ in pairs))) == ALL
        assert sorted(number for _, batch in pairs for number in batch["n"].numpy()) == ALL
    drop_iterators()


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of each record a number, and two of half its size made of it."""
    folder = tmp_path_factory.mktemp("numbers")
    for file in range(FILES):
        ours = range(file * RECORDS, (file + 1) * RECORDS)
        payloads = (n.to_bytes(4, "little") + n.to_bytes(2, "big") * 2 for n in ours)
        (folder / f"part-{file}.tfrecord").write_bytes(stream(payloads))
    return sorted(folder.iterdir())


def test_records_of_fixed_length_are_read_in_every_way(cluster: Cluster, numbers: list[Path]) -> None:
    assert cluster.dispatcher is not None
    parse = {"n": tfquiver.FixedLength([], tf.int32), "few": tfquiver.FixedLength([2], "uint16", little_endian=False)}

    def read(dataset: tf.data.Dataset) -> list[int]:
        found: list[int] = []
        for batch in dataset:
            assert batch["few"].numpy().tolist() == [[n, n] for n in batch["n"].numpy().tolist()]
            found += batch["n"].numpy().tolist()
        return found

    assert read(made(cluster, numbers, parse, order="files")) == ALL
    source = made(cluster, numbers, parse)
    assert sorted(read(source)) == ALL
    once = tfquiver.distribute(cluster.dispatcher.address, guarantee="exactly_once")
    for through in (tfquiver.distribute(cluster.dispatcher.address), once):
        assert sorted(read(source.apply(through))) == ALL
    numbered = tfquiver.Deterministic(3, with_position=True)
    pairs = list(made(cluster, numbers, tfquiver.FixedLength([4], "uint16"), order=numbered))
    assert list(itertools.chain(*(positions.numpy() for positions, _ in pairs))) == ALL
    sampled = made(cluster, numbers, parse, order=tfquiver.WithReplacement(epoch_share=0.4, seed=1))
    assert set(read(sampled)) < set(ALL)


def test_an_odd_record_is_named_with_the_file_that_it_is_in(
    cluster: Cluster, numbers: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        list(made(cluster, [numbers[1]], tfquiver.FixedLength([3], tf.uint16)))
    drop_iterators()
    said = re.search(r"record \d+ of shard (\d+) of data set (\w+) has 8 bytes, and its .* fields 6", str(raised.value))
    assert said is not None
    digest = str(cluster.cache_dir / "digests" / f"{said[2]}.tfqd")
    assert main(["digest", "show", "--json", "--shard", said[1], digest]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == numbers[1].as_uri()


def test_a_killed_run_goes_on_without_what_it_read(cluster: Cluster, paths: list[Path]) -> None:
    again: dict[str, Any] = {"job": "resumed", "order": tfquiver.Shuffled(shuffle_bytes=0)}  # by whole shards
    again["reading"] = tfquiver.Reading(hold_back=0, readahead_bytes=1)
    before = numbers_of(made(cluster, paths, FIXED, **again).take(120))
    drop_iterators()
    after = numbers_of(made(cluster, paths, FIXED, resume=True, **again))
    assert set(before) | set(after) == set(ALL)
    assert len(after) < len(ALL)


def test_what_cannot_be_is_told_before_anything_is_read(cluster: Cluster, paths: list[Path]) -> None:
    for parse in ({}, [("n", FIXED["n"])], {1: FIXED["n"]}, {"n": tf.int64}):
        with pytest.raises(errors.InvalidArgumentError, match="parse"):
            made(cluster, paths, parse)
    with pytest.raises(errors.InvalidArgumentError, match="batch_size="):
        tfquiver.dataset(paths, service=cluster.coordinator.address, cache_dir=cluster.cache_dir, parse=FIXED)
    with pytest.raises(errors.InvalidArgumentError, match="parse in fn"):
        made(cluster, paths, FIXED).apply(tfquiver.materialize(lambda record: record))
