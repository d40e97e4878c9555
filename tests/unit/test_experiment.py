"""What experiments work out from what they saw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.bench.experiment.jobs import Epoch, JobRun, Jobs, JobSpec
from tests.bench.experiment.remote import Data
from tests.bench.experiment.watch import ChunksOnDisk, Samples
from tests.support import numbered
from tfquiver.listing import listing
from tfquiver.scanning import digest_build
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.shard_owners_chunks_hash_prefixes.striping import stripe


@pytest.fixture
def data(tmp_path: Path) -> Data:
    numbered.write(tmp_path / "files", 2, 40, 84)
    digest = digest_build.build(listing.expand(str(tmp_path / "files" / "*")), CutPolicy(400, 400, 400))
    return Data("test", 80, tmp_path / "x.tfqd", digest)


class Source:
    """Stands in for a tf.data.Dataset: gives one epoch after the other."""

    def __init__(self, epochs: list[list[int]]) -> None:
        self._epochs = iter(epochs)

    def as_numpy_iterator(self) -> list[np.ndarray]:
        return [np.array([n.to_bytes(8, "little")], object) for n in next(self._epochs)]


def run(epochs: list[list[int]], data: Data) -> JobRun:
    (made,) = Jobs([JobSpec("job", 0.0, epochs=len(epochs))], lambda _: Source(epochs), data).start().join(30)
    return made


def test_a_job_counts_what_it_misses_and_what_comes_twice(data: Data) -> None:
    everything = list(range(80))
    assert run([everything, everything[::-1]], data).every_record_once
    lacking = run([everything, everything[:-1]], data)
    assert [epoch.lost for epoch in lacking.epochs] == [0, 1]
    assert not lacking.every_record_once
    twice = run([[*everything, 7]], data)
    assert (twice.epochs[0].lost, twice.epochs[0].duplicates) == (0, 1)
    assert not twice.every_record_once
    assert len(twice.asked_s) == len(twice.arrived_s) == 81


def test_what_a_job_raises_is_raised_by_join(data: Data) -> None:
    with pytest.raises(StopIteration):
        Jobs([JobSpec("job", 0.0, epochs=2)], lambda _: Source([[1]]), data).start().join(30)


def test_a_step_that_follows_at_once_is_not_longer_for_a_late_host(data: Data) -> None:
    spec, epochs = JobSpec("job", 0.01, epochs=2, ahead=True), [list(range(20)), list(range(20))]
    (made,) = Jobs([spec], lambda _: Source(epochs), data).start().join(30)
    assert len(made.asked_s) == len(made.arrived_s) == 40
    for first, epoch in ((0, made.epochs[0]), (20, made.epochs[1])):
        done_s = made.asked_s[first]  # before the first step
        for arrived_s, next_s in zip(made.arrived_s[first : first + 19], made.asked_s[first + 1 :], strict=False):
            assert next_s == max(done_s, arrived_s) + 0.01
            done_s = next_s
        assert epoch.wall_s >= 20 * 0.01


def test_waiting_is_counted_by_arrival() -> None:
    made = JobRun(JobSpec("job", 1.0), asked_s=[0.0, 2.0, 4.0], arrived_s=[1.0, 2.5, 4.25])
    made.epochs = [Epoch(0.0, 2.0, complete=True), Epoch(2.0, 5.0, complete=True), Epoch(5.0, 5.1)]
    assert made.waited_s(0, 10) == 1.75
    assert made.waited_s(2.5, 4.25) == 0.5
    assert made.epoch_s(skip=1) == 3.0


def test_rates_are_those_of_the_window() -> None:
    samples = Samples(at_s=[1.0, 2.0, 3.0], store_bytes=[0, 0, 0], records=[[10, 0], [20, 10], [20, 10]])
    at, rates = samples.rates(1.0)
    assert at.tolist() == [1.0, 2.0, 3.0]
    assert rates.tolist() == [10.0, 20.0, 0.0]


def test_chunks_on_disk_are_found_by_the_names_of_files(data: Data, tmp_path: Path) -> None:
    chunks = ChunksOnDisk(data, 4, 0, [tmp_path / "a", tmp_path / "b"])
    assert chunks.look().tolist() == [0, 0, 0, 0]
    for index in range(data.digest.num_shards):
        name = data.digest.hashes[index].tobytes().hex()
        path = tmp_path / "ab"[index % 2] / "objects" / name[:2] / name[2:4] / name
        path.parent.mkdir(parents=True)
        path.touch()
    assert chunks.look().tolist() == chunks.sizes_bytes.tolist()
    stranger = tmp_path / "a" / "objects" / "00" / "00" / ("0" * 64)
    stranger.parent.mkdir(parents=True)
    stranger.touch()
    assert chunks.look().sum() == data.size_bytes


@pytest.mark.slow
@pytest.mark.parametrize("which", ["FULL", "QUICK"])
def test_two_chunks_have_room_in_every_run(which: str) -> None:
    from tests.bench import lru_collapse  # and Matplotlib

    scale = getattr(lru_collapse, which)
    lengths = np.full(lru_collapse.SHARDS, 65536, np.uint64)
    points = [*lru_collapse.full_points(scale), *lru_collapse.quick_points(scale)]
    assert len(set(points)) > 30
    for point in points:
        if point.way.rotation:
            largest = np.sort(stripe(lengths, point.chunks).sizes_bytes)[-2:]
            assert largest.sum() <= point.share * lengths.sum(), point.label
        if not point.in_step:
            began = max(point.crowd.offsets) * point.crowd.epoch_s
            assert began <= point.warm_up * point.crowd.fastest_epoch_s, point.label


def test_the_time_between_epochs_is_not_read_in() -> None:
    """But for the last step; and where the next one begins at once, only that."""
    arrived = [1.0, 2.0, 3.0, 5.5, 6.5, 7.75, 8.75]
    made = JobRun(JobSpec("job", 1.0), arrived_s=arrived)
    made.epochs = [Epoch(0.0), Epoch(5.0, first=3), Epoch(7.5, first=5)]
    assert made.read_s(0, 2) == 2.0
    assert made.read_s(0, 3) == 3.5, "1 s waited for the end, half a second for the first of the next"
    assert made.read_s(3, 6) == 3.25
    assert made.read_s(0, 6) == 6.75
