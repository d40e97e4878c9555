"""Sampled data sets end to end: an epoch is just what its scheme draws, whoever reads it and wherever it goes on."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

import tfquiver
from tests.support import numbered, sampled
from tests.support.aio import on_loop
from tests.support.cluster import Cluster
from tests.support.coordinator_client import NODE, CoordinatorClient
from tests.support.digests import numbered_digest
from tfquiver import CutPolicy, errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights import samplings
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs import registry
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population
from tfquiver.service.coordinator.server import CoordinatorServer
from tfquiver.users_arguments_checked.sampled import Sampled

FILES, RECORDS_A_FILE, RECORD_BYTES = 4, 1000, 500
TOTAL = FILES * RECORDS_A_FILE
CUT = CutPolicy(5_000, 10_000, 20_000)  # some 200 shards

# A package of others, as pip would install it.
_ENTRY_POINTS = "[tfquiver.sampling_schemes]\n" + "".join(
    f"{name} = theirs:{name.title()}\n" for name in ("stripes", "beyond", "twice", "endless", "fails", "heavy")
)
_THEIRS = '''
import time

import numpy as np
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws


class Stripes:
    """Every nth shard, another residue each epoch."""

    repeats = False

    def __init__(self, *, nth):
        if nth < 1:
            raise ValueError(f"nth={nth}: must be at least 1")
        self.nth = nth

    def draw(self, population, epoch, chance):
        return Draws(np.arange(epoch % self.nth, population.shards, self.nth))


class Heavy(Stripes):
    """Of these shards' records each with the chance weight / largest in the shard."""

    takes_weights = True

    def draw(self, population, epoch, chance):
        shards = super().draw(population, epoch, chance).shards
        return Draws(shards, picks=population.picks(shards, chance))


class Beyond:
    def draw(self, population, epoch, chance):
        return Draws([0, population.shards])


class Twice:
    """As it says, in its first epoch only."""

    repeats = False

    def draw(self, population, epoch, chance):
        return Draws([0, 1, 1] if epoch else [0, 1])


class Endless:
    def draw(self, population, epoch, chance):
        while True:
            time.sleep(0.001)


class Fails:
    def draw(self, population, epoch, chance):
        raise KeyError("difficulty")
'''


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    theirs = tmp_path_factory.mktemp("site")
    (theirs / "theirs.py").write_text(_THEIRS)
    (theirs / "theirs-1.0.dist-info").mkdir()
    (theirs / "theirs-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (theirs / "theirs-1.0.dist-info" / "entry_points.txt").write_text(_ENTRY_POINTS)
    where = tmp_path_factory.mktemp("cluster")
    with Cluster(where, workers=2, env={"PYTHONPATH": str(theirs)}) as running:
        yield running


paths = numbered.fixture(FILES, RECORDS_A_FILE, RECORD_BYTES)


def read(cluster: Cluster, paths: list[Path], order: Any, **arguments: Any) -> tf.data.Dataset:
    return tfquiver.dataset(
        paths,
        service=cluster.coordinator.address,
        cache_dir=cluster.cache_dir,
        first_use=tfquiver.FirstUse(cut=CUT),
        order=order,
        **arguments,
    )


ORDERS: list[Sampled] = [
    tfquiver.Curriculum(tfquiver.Pacing(starting_part=0.2, growth=2.0, step_epochs=0.4)),
    tfquiver.Curriculum([(0, 0.3), (1, 1.0)], replacement=False, seed=7, shuffle_bytes=0),
    tfquiver.Weighted({"part-003*": 10.0, "*": 1.0}),
    tfquiver.WithReplacement(epoch_share=0.5),
    tfquiver.ClassBalanced({"rare": "part-000.tfrecord", "many": ["part-001*", "part-00[23]*"]}),
    tfquiver.Reservoir(500, shuffle_bytes=0),
]


@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_an_epoch_is_what_the_scheme_draws(cluster: Cluster, paths: list[Path], order: Sampled) -> None:
    made = read(cluster, paths, order, batch_size=64)
    assert made.cardinality() == tf.data.UNKNOWN_CARDINALITY
    digest = sampled.only_digest(cluster.coordinator.address)
    for epoch in range(3):
        assert sampled.counted(numbered.read(made)) == sampled.expected(digest, order, epoch)


def test_stages_come_one_after_the_other(cluster: Cluster, paths: list[Path]) -> None:
    order = tfquiver.Curriculum([(0, 0.25), (0.5, 1.0)], shuffle_bytes=0)
    seen = numbered.read(read(cluster, paths, order, reading=tfquiver.Reading(readahead_bytes=1)))
    easy = np.flatnonzero(seen >= TOTAL // 4 + 100)[0]  # the first that is not
    assert 0.45 * TOTAL < easy < 0.55 * TOTAL


def test_a_reservoir_comes_in_stored_order(cluster: Cluster, paths: list[Path]) -> None:
    order, one_at_a_time = tfquiver.Reservoir(800, shuffle_bytes=0), tfquiver.Reading(readahead_bytes=1)
    seen = numbered.read(read(cluster, paths, order, reading=one_at_a_time))
    assert (np.diff(seen) > 0).all()
    assert 700 < len(seen) < 900


@pytest.mark.parametrize("symbolic", [False, True], ids=["plain", "symbolic"])
@pytest.mark.parametrize("order", [ORDERS[0], ORDERS[2]], ids=["curriculum", "weighted"])
def test_a_checkpoint_goes_on_with_the_rest_of_what_was_drawn(
    cluster: Cluster, paths: list[Path], tmp_path: Path, order: Sampled, symbolic: bool
) -> None:
    """In another epoch than the first, and by a data set that is made anew, as another process does."""
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = symbolic
    made = read(cluster, paths, order, job=f"saved-{symbolic}-{order.asked()[0]}").with_options(options)
    first = numbered.read(made)
    iterator = iter(made)
    before = numbered.read(next(iterator).numpy() for _ in range(1500))
    saved = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    numbered.read(next(iterator).numpy() for _ in range(500))  # after the checkpoint: not part of it
    again = iter(read(cluster, paths, order).with_options(options))
    tf.train.Checkpoint(iterator=again).read(saved).assert_consumed()
    after = numbered.read(record.numpy() for record in again)
    digest = sampled.only_digest(cluster.coordinator.address)
    assert sampled.counted(first) == sampled.expected(digest, order, 0)
    assert sampled.counted(np.concatenate([before, after])) == sampled.expected(digest, order, 1)


def test_a_checkpoint_of_another_seed_is_refused(cluster: Cluster, paths: list[Path], tmp_path: Path) -> None:
    iterator = iter(read(cluster, paths, tfquiver.WithReplacement(seed=1)))
    next(iterator)
    saved = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    again = iter(read(cluster, paths, tfquiver.WithReplacement(seed=2)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="not that of an epoch of seed 2: give the seed"):
        tf.train.Checkpoint(iterator=again).read(saved)
        list(again)  # what TensorFlow had fetched ahead comes first


def test_workers_of_tf_data_service_share_an_epoch(cluster: Cluster, paths: list[Path]) -> None:
    assert cluster.dispatcher is not None
    order = tfquiver.Weighted({"part-000*": 4.0, "*": 1.0})
    made = tfquiver.dataset(
        paths, service=cluster.coordinator.address, first_use=tfquiver.FirstUse(cut=CUT), order=order, batch_size=32
    ).apply(tfquiver.distribute(cluster.dispatcher.address))
    digest = sampled.only_digest(cluster.coordinator.address)
    for epoch in range(2):
        assert sampled.counted(numbered.read(made)) == sampled.expected(digest, order, epoch)


def test_exactly_once_is_of_records_that_come_once(cluster: Cluster, paths: list[Path]) -> None:
    assert cluster.dispatcher is not None
    made = read(cluster, paths, tfquiver.WithReplacement())
    with pytest.raises(errors.InvalidArgumentError, match="a sampling scheme"):
        made.apply(tfquiver.distribute(cluster.dispatcher.address, guarantee="exactly_once"))


def test_resume_goes_on_with_what_was_drawn(cluster: Cluster, paths: list[Path]) -> None:
    order = tfquiver.WithReplacement(epoch_share=2.0, shuffle_bytes=0)
    reading = tfquiver.Reading(hold_back=100, readahead_bytes=1)
    first = read(cluster, paths, order, job="resumed", reading=reading)
    iterator = iter(first)
    before = numbered.read(next(iterator).numpy() for _ in range(3000))
    del iterator
    after = numbered.read(read(cluster, paths, order, job="resumed", resume=True))
    wanted = sampled.expected(sampled.only_digest(cluster.coordinator.address), order)
    lost, again = sampled.lost_and_again(np.concatenate([before, after]), wanted)
    assert lost == 0
    assert again < 200  # held back, and of the shards that it was in the middle of


def test_wrong_arguments_are_told_when_the_data_set_is_made(cluster: Cluster, paths: list[Path]) -> None:
    for order, what in (
        (tfquiver.Weighted({"nope*": 1.0}), "scheme weighted, epoch 0: weights: no pattern matches file://.*part-000"),
        (tfquiver.Weighted([1.0]), "weights: 1 number; the data set has"),
        (tfquiver.Reservoir(TOTAL + 1), f"records={TOTAL + 1}: the data set has {TOTAL}"),
        (tfquiver.Sampling("nope"), "sampling scheme 'nope': there are beyond, class_balanced, curriculum"),
        (tfquiver.Sampling("stripes"), "sampling scheme stripes of theirs:Stripes: TypeError: .*nth"),
        (tfquiver.Sampling("stripes", {"nth": 0}), "sampling scheme stripes of theirs:Stripes: nth=0: must be"),
        (
            tfquiver.Sampling("beyond"),
            "sampling scheme beyond, epoch 0: draw 1 is of shard .*; the data set has shards 0",
        ),
        (tfquiver.Sampling("fails"), "sampling scheme fails, epoch 0: KeyError: 'difficulty'"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=what):
            read(cluster, paths, order)


def test_a_scheme_of_another_package(cluster: Cluster, paths: list[Path]) -> None:
    made = read(cluster, paths, tfquiver.Sampling("stripes", {"nth": 3}))
    digest = sampled.only_digest(cluster.coordinator.address)
    before = np.concatenate(([0], np.cumsum(digest.records)))
    for epoch in range(2):
        wanted = Counter[int]()
        for shard in range(epoch, digest.num_shards, 3):
            wanted.update(range(int(before[shard]), int(before[shard + 1])))
        assert sampled.counted(numbered.read(made)) == wanted


def test_a_scheme_of_another_package_that_draws_records_by_weight(cluster: Cluster, paths: list[Path]) -> None:
    weights = np.where(np.arange(TOTAL) % 3, 0.25, 1.0) * (np.arange(TOTAL) % 7 > 0)
    order = tfquiver.Sampling("heavy", {"nth": 2}, weights=weights)
    made = read(cluster, paths, order)
    digest, picked, shown = sampled.only_digest(cluster.coordinator.address), np.zeros(3, int), np.zeros(3, int)
    shard_of = np.repeat(np.arange(digest.num_shards), digest.records)
    kind = np.where(weights == 0, 0, np.where(weights == 1, 1, 2))
    for epoch in range(4):
        seen = sampled.counted(numbered.read(made))
        assert set(seen.values()) == {1}
        assert {int(shard_of[record]) % 2 for record in seen} == {epoch % 2}
        picked += np.bincount(kind[list(seen)], minlength=3)
        shown += np.bincount(kind[shard_of % 2 == epoch % 2], minlength=3)
    assert picked[0] == 0
    assert picked[1] == shown[1]  # the largest of every shard, of which each has some
    chance = stats.binomtest(int(picked[2]), int(shown[2]), 0.25)
    assert chance.pvalue > 0.001
    # A chance of 0.29 would be refused in 99 of 100 cases.
    least, most = stats.binom(shown[2], 0.25).ppf([0.0005, 0.9995])
    assert stats.binom(shown[2], 0.29).cdf(most) - stats.binom(shown[2], 0.29).cdf(least - 1) < 0.01
    for wrong, what in (
        (tfquiver.Sampling("heavy", {"nth": 2}), "scheme heavy, epoch 0: weights: none of records were given"),
        (tfquiver.Sampling("stripes", {"nth": 2}, weights=weights), "scheme stripes: it takes no weights of records"),
        (tfquiver.Sampling("with_replacement", weights=weights), "with_replacement: it takes no weights of records"),
        (tfquiver.Sampling("heavy", {"nth": 2}, weights=weights[1:]), f"weights: {TOTAL - 1} weights; data set"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=what):
            read(cluster, paths, wrong)


def test_a_scheme_that_turns_bad_ends_its_epoch_with_its_name_and_harms_no_other(
    cluster: Cluster, paths: list[Path]
) -> None:
    made = read(cluster, paths, tfquiver.Sampling("twice"))
    assert len(numbered.read(made))
    with pytest.raises(tf.errors.InvalidArgumentError, match="sampling scheme twice, epoch 1: shard 1 is drawn twice"):
        numbered.read(made)
    numbered.assert_each_once(numbered.read(read(cluster, paths, tfquiver.Shuffled())), TOTAL)


def test_a_scheme_that_never_ends_is_given_up(cluster: Cluster, paths: list[Path]) -> None:
    patience = tfquiver.Connection(connect_timeout_s=10.0)
    with pytest.raises(errors.TfquiverError, match="sampling scheme endless: an epoch was not drawn in 8 s"):
        read(cluster, paths, tfquiver.Sampling("endless"), connection=patience)
    order = tfquiver.WithReplacement()
    seen = numbered.read(read(cluster, paths, order))
    assert sampled.counted(seen) == sampled.expected(sampled.only_digest(cluster.coordinator.address), order)


@on_loop
async def test_nodes_that_do_not_know_draws_are_refused(tmp_path: Path) -> None:
    server, digest = CoordinatorServer(), numbered_digest(20)
    await server.start(tmp_path / "work", "localhost:0")
    async with server, CoordinatorClient.connected(f"localhost:{server.bound_port}") as client:
        await client.upload([digest.to_bytes()])
        key, digest_id = "key~with_replacement", digest.digest_id
        request = pb.OpenReaderRequest(
            reader_id="r", node_id=NODE, incarnation="1", digest_id=digest_id, session_key=key, seed=3
        )  # fmt: skip
        with pytest.raises(errors.InvalidArgumentError, match="is not known here any more"):
            await client.call("OpenReader", request)
        asking = pb.AskSamplingRequest(
            session_key=key, digest_id=digest_id, scheme="with_replacement", arguments="{}", seed=3
        )
        reply = await client.call("AskSampling", asking)
        assert (reply.draws, reply.records) == (20, 20)
        with pytest.raises(errors.InvalidArgumentError, match=f"node {NODE} is too old for that"):
            await client.call("OpenReader", request)
        request.knows_draws = True
        assert (await client.call("OpenReader", request)).drawn.draws == 20
        asking.seed = 0
        with pytest.raises(errors.InvalidArgumentError, match="seed: "):
            await client.call("AskSampling", asking)


_ENDED = threading.Event()


class WaitsForIt:
    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        _ENDED.wait(60)
        return Draws([0])


@on_loop
async def test_those_who_ask_and_leave_fill_no_process_with_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [EntryPoint("slow", f"{__name__}:WaitsForIt", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    monkeypatch.setattr(samplings, "DRAW_S", 60.0)
    server, digest = CoordinatorServer(), numbered_digest(20)
    await server.start(tmp_path / "work", "localhost:0")
    _ENDED.clear()
    try:
        async with server, CoordinatorClient.connected(f"localhost:{server.bound_port}") as client:
            await client.upload([digest.to_bytes()])
            asking = pb.AskSamplingRequest(
                session_key="key~slow", digest_id=digest.digest_id, scheme="slow", arguments="{}", seed=3
            )
            for seed in (3, 4, 5):
                asking.seed = seed
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await client.call("AskSampling", asking)
                assert [thread.name for thread in threading.enumerate()].count("sampling slow") == 1
            _ENDED.set()
            asking.seed = 3
            assert (await client.call("AskSampling", asking)).draws == 1
    finally:
        _ENDED.set()


def test_calls_that_wait_for_a_draw_have_time_for_it() -> None:
    from tfquiver.data_sources_found_and_registered.registration import CALL_S

    assert samplings.DRAW_S < CALL_S
