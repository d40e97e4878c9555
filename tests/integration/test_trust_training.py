"""Training with a job's token, as a user writes it; and without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tfquiver
from tests.support import numbered
from tests.support.trusted import Trusted
from tfquiver import CutPolicy, endpoints, errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb

FILES, RECORDS = 2, 300
CUT = CutPolicy(5_000, 10_000, 20_000)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return numbered.write(tmp_path_factory.mktemp("data"), FILES, RECORDS, 500)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Trusted]:
    trusted = Trusted(tmp_path)
    yield trusted
    endpoints.close_all()
    trusted.close()


def test_a_job_reads_with_its_token_and_its_sessions_are_its_own(cluster: Trusted, paths: list[Path]) -> None:
    where = {"service": cluster.coordinator.address, "cache_dir": cluster.root / "a", "cut": CUT, "job": "train"}
    for who, epochs in (("blue", 2), ("green", 1)):
        dataset = tfquiver.dataset(paths, auth_token_file=cluster.token_file(who), **where)
        for _ in range(epochs):
            assert len(set(dataset.as_numpy_iterator())) == FILES * RECORDS
    told = {who: cluster.call(who, "ListSessions", pb.ListSessionsRequest()).sessions for who in ("blue", "green")}
    assert {who: [(one.job, one.epoch) for one in its] for who, its in told.items()} == {
        "blue": [("blue/train", 1), ("blue/train", 0)],
        "green": [("green/train", 0)],
    }


def test_without_a_token_one_learns_what_is_missing(cluster: Trusted, paths: list[Path]) -> None:
    with pytest.raises(errors.UnauthenticatedError, match="--auth_token_file"):
        tfquiver.dataset(paths, service=cluster.coordinator.address, cache_dir=cluster.root / "a", cut=CUT)
