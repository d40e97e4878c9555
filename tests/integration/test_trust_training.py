"""Training with a job's token, as a user writes it; and without one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfquiver
from tests.support import numbered
from tests.support.cluster import Server
from tests.support.trusted import Trusted
from tfquiver import CutPolicy, errors
from tfquiver.cli.main import main
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb

FILES, RECORDS = 2, 300
CUT = CutPolicy(5_000, 10_000, 20_000)
paths = numbered.fixture(FILES, RECORDS, 500)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Trusted]:
    trusted = Trusted(tmp_path)
    yield trusted
    endpoints.close_all()
    trusted.close()


def test_a_job_reads_with_its_token_and_its_sessions_are_its_own(cluster: Trusted, paths: list[Path]) -> None:
    where = {
        "service": cluster.coordinator.address,
        "cache_dir": cluster.root / "a",
        "first_use": tfquiver.FirstUse(cut=CUT),
        "job": "train",
    }
    for who, epochs in (("blue", 2), ("green", 1)):
        dataset = tfquiver.dataset(
            paths, connection=tfquiver.Connection(auth_token_file=cluster.token_file(who)), **where
        )
        for _ in range(epochs):
            assert len(set(dataset.as_numpy_iterator())) == FILES * RECORDS
    told = {who: cluster.call(who, "ListSessions", pb.ListSessionsRequest()).sessions for who in ("blue", "green")}
    assert {who: [(one.job, one.epoch) for one in its] for who, its in told.items()} == {
        "blue": [("blue/train", 1), ("blue/train", 0)],
        "green": [("green/train", 0)],
    }


def test_the_token_may_be_named_by_the_environment(
    cluster: Trusted, paths: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an operator's pods have it: a trainer that says nothing of tokens, and a person's commands beside it."""
    monkeypatch.setenv("TFQUIVER_SERVICE", cluster.coordinator.address)
    monkeypatch.setenv("TFQUIVER_AUTH_TOKEN_FILE", str(cluster.token_file("blue")))
    dataset = tfquiver.dataset(paths, service=cluster.coordinator.address, cache_dir=cluster.root / "a", job="train")
    assert len(set(dataset.as_numpy_iterator())) == FILES * RECORDS
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    assert [one["job"] for one in json.loads(capsys.readouterr().out)["sessions"]] == ["blue/train"]
    monkeypatch.setenv("TFQUIVER_AUTH_TOKEN_FILE", str(cluster.root / "nothing"))
    assert main(["status"]) == 1
    assert "TFQUIVER_AUTH_TOKEN_FILE=" in capsys.readouterr().err


def test_workers_of_a_cluster_with_tokens_deliver_exactly_once(cluster: Trusted, paths: list[Path]) -> None:
    """And what they do not deliver the trainer reads, with its own token."""
    token = f"--auth_token_file={cluster.token_file('rack1')}"
    where = [f"--coordinator={cluster.coordinator.address}", token, "--port=0", f"--work_dir={cluster.root / 'work'}"]
    dispatcher = Server("tfquiver.service.dispatcher.main", where, cluster.root / "dispatcher.log")
    way = ["--port=0", f"--node_dir={cluster.root / 'a'}", "--heartbeat_interval_ms=200"]
    worker = Server("tfquiver.service.worker.main", way, cluster.root / "worker.log")
    try:
        worker.arguments.append(f"--dispatcher={dispatcher.start().address}")
        worker.start()
        read = tfquiver.dataset(
            paths,
            service=cluster.coordinator.address,
            cache_dir=cluster.root / "a",
            first_use=tfquiver.FirstUse(cut=CUT),
            batch_size=20,
            connection=tfquiver.Connection(auth_token_file=cluster.token_file("blue")),
            job="train",
        )
        once = read.apply(
            tfquiver.distribute(dispatcher.address, guarantee="exactly_once", takeover_timeout_s=4.0, compression=None)
        )
        before = tfquiver.delivery_stats().mopped_up
        numbered.assert_each_once(numbered.EpochReader(once).result(60.0), FILES * RECORDS)
        assert tfquiver.delivery_stats().mopped_up == before
        worker.kill()
        numbered.assert_each_once(numbered.EpochReader(once).result(60.0), FILES * RECORDS)
        assert tfquiver.delivery_stats().mopped_up > before
    finally:
        worker.stop()
        dispatcher.stop()
    told = cluster.call("blue", "ListSessions", pb.ListSessionsRequest()).sessions
    assert {one.job for one in told} == {"blue/train", "blue/train (mop-up)"}


def test_without_a_token_one_learns_what_is_missing(cluster: Trusted, paths: list[Path]) -> None:
    with pytest.raises(errors.UnauthenticatedError, match="--auth_token_file"):
        tfquiver.dataset(
            paths,
            service=cluster.coordinator.address,
            cache_dir=cluster.root / "a",
            first_use=tfquiver.FirstUse(cut=CUT),
        )
