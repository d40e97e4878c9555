"""A real Prometheus scrapes a running cluster, with the files of configs/: boards have data, and alerts fire."""

from __future__ import annotations

import json
import runpy
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster, wait_until
from tests.support.prometheus_server import Prometheus
from tests.support.promtool import needs_prometheus
from tfquiver.cli.main import main
from tfquiver.grpc_plumbing import addresses, rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
METRICS = ["--metrics_address=localhost:0"]
DISPATCHER, NODE = "TfquiverDispatcherLost", "TfquiverNodeLost"

pytestmark = needs_prometheus
paths = numbered.fixture(files=4, records_a_file=4000, record_bytes=2048)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    flags = dict.fromkeys(("node", "dispatcher", "worker"), METRICS)
    flags["coordinator"] = [f"--metrics_address=127.0.0.1:{addresses.free_port(['127.0.0.1'])}"]  # also started again
    with Cluster(tmp_path / "cluster", workers=1, flags=flags) as running:
        yield running


def train(data: Any, enough: threading.Event) -> None:
    """Steps of 20 ms, so that what it reads can be measured."""
    for _ in data:
        if enough.wait(0.02):
            return


def coordinator_is_killed(
    cluster: Cluster, prometheus: Prometheus, meanwhile: Callable[[], None] = lambda: None
) -> None:
    cluster.coordinator.kill()
    wait_until(lambda: prometheus.values("up") == [0.0], "it is gone for Prometheus, too", 60)
    meanwhile()
    cluster.coordinator.restart()
    wait_until(lambda: prometheus.values("up") == [1.0], "it is back", 60)


@pytest.mark.timeout(280)
def test_a_cluster_is_seen_and_who_is_killed_is_missed(cluster: Cluster, tmp_path: Path, paths: list[Path]) -> None:
    assert cluster.node is not None
    assert cluster.dispatcher is not None
    servers = [cluster.coordinator, cluster.node, cluster.dispatcher, *cluster.workers]
    targets = [server.ready["metrics"] for server in servers]
    prometheus = Prometheus(tmp_path / "prometheus", targets)
    enough, reading = threading.Event(), ThreadPoolExecutor(1)
    try:
        wait_until(lambda: prometheus.values("sum(up)") == [len(servers)], "all are scraped", 60)
        data = tfquiver.dataset(
            paths, service=cluster.coordinator.address, cache_dir=cluster.cache_dir, batch_size=100, job="seen"
        )
        reading.submit(train, data.apply(tfquiver.distribute(cluster.dispatcher.address)).repeat(), enough)
        for series in (
            "tfquiver_node_served_bytes_total > 0",
            'tfquiver_job_bytes_per_second{training_job="seen"}',
            "tfquiver_dataset_resident_bytes > 0",
            "tfquiver_coordinator_nodes == 2",  # and the dispatcher's own
            "tfquiver_coordinator_workers == 1",
            'tfquiver_rpc_seconds_count{method="Lease",code="OK"} > 0',
            "tfquiver_commit_log_sync_seconds_count > 0",
            "sum(tfquiver_node_fetch_seconds_count) > 0",
            "sum(tfquiver_node_reader_stall_seconds_count) > 5",
        ):
            wait_until(lambda series=series: bool(prometheus.values(series)), series, 60)  # type: ignore[misc]
        board = json.loads((CONFIGS / "grafana" / "tfquiver.json").read_text())
        queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        assert len(queries) > 15
        for query in queries:  # those of five minutes have something to tell by now, too
            wait_until(lambda query=query: bool(prometheus.values(query)), query, 30)  # type: ignore[misc]
        enough.set()
        assert not {"TfquiverServerDown", "TfquiverNodeLost", "TfquiverCallsFail"} & prometheus.firing()

        cluster.workers[0].kill()
        cluster.node.kill()
        missed = {"TfquiverServerDown", "TfquiverNodeLost"}
        wait_until(lambda: missed <= prometheus.firing(), "alerts fire", 60)
        assert prometheus.values("count(up == 0)") == [2.0]
        wait_until(lambda: "TfquiverWorkerSilent" in prometheus.firing(), "the worker's alert fires", 60)
        cluster.node.restart()  # through which the worker reads
        cluster.workers[0].restart()
        wait_until(lambda: "TfquiverWorkerSilent" not in prometheus.firing(), "and is resolved", 60)
        assert DISPATCHER not in prometheus.fired()
    finally:
        enough.set()
        reading.shutdown()
        prometheus.close()


@pytest.mark.long
@pytest.mark.timeout(280)
def test_a_dispatcher_that_is_lost_is_missed_by_a_coordinator_that_is_started_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    """For a day; and one that was killed while no coordinator was there is missed, too."""
    assert cluster.dispatcher is not None
    prometheus = Prometheus(tmp_path / "prometheus", [cluster.coordinator.ready["metrics"]])
    coordinator = cluster.coordinator.address

    def silent_ms() -> list[int]:
        with rpc.channel(coordinator) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            return [one.silent_ms for one in stub.ListDispatchers(pb.ListDispatchersRequest(), timeout=10).lost]

    try:
        wait_until(lambda: prometheus.values("tfquiver_coordinator_dispatchers") == [1.0], "it is known", 60)
        coordinator_is_killed(cluster, prometheus)
        wait_until(lambda: prometheus.values("tfquiver_coordinator_dispatchers") == [1.0], "it is known again", 60)
        assert DISPATCHER not in prometheus.fired()

        cluster.dispatcher.kill()
        wait_until(lambda: DISPATCHER in prometheus.firing(), "the alert fires", 60)
        for _ in range(2):
            [before_ms] = silent_ms()
            coordinator_is_killed(cluster, prometheus)
            wait_until(lambda: DISPATCHER in prometheus.firing(), "it fires still", 30)
            [since_ms] = silent_ms()
            assert since_ms > before_ms, "it has begun to miss it anew"
        assert prometheus.values("tfquiver_coordinator_dispatchers") == [0.0]

        cluster.dispatcher.restart()
        wait_until(lambda: DISPATCHER not in prometheus.firing(), "it is resolved", 60)
        coordinator_is_killed(cluster, prometheus, cluster.dispatcher.kill)
        wait_until(lambda: DISPATCHER in prometheus.firing(), "who was killed meanwhile is missed", 60)
    finally:
        prometheus.close()


@pytest.mark.long
@pytest.mark.timeout(280)
def test_a_node_that_is_lost_is_missed_by_a_coordinator_that_is_started_again(cluster: Cluster, tmp_path: Path) -> None:
    """And one that was killed while no coordinator was there; nobody is missed who comes back in time."""
    assert cluster.node is not None
    prometheus = Prometheus(tmp_path / "prometheus", [cluster.coordinator.ready["metrics"]])
    try:
        wait_until(lambda: prometheus.values("tfquiver_coordinator_nodes") == [2.0], "they are known", 60)
        coordinator_is_killed(cluster, prometheus)
        wait_until(lambda: prometheus.values("tfquiver_coordinator_nodes") == [2.0], "they are known again", 60)
        assert NODE not in prometheus.fired()

        cluster.node.kill()
        wait_until(lambda: NODE in prometheus.firing(), "the alert fires", 60)
        for _ in range(2):
            coordinator_is_killed(cluster, prometheus)
            wait_until(lambda: NODE in prometheus.firing(), "it fires still", 30)
        cluster.node.restart()
        wait_until(lambda: NODE not in prometheus.firing(), "it is resolved", 60)
        coordinator_is_killed(cluster, prometheus, cluster.node.kill)
        wait_until(lambda: NODE in prometheus.firing(), "who was killed meanwhile is missed", 60)
        [lost] = tfquiver.status(cluster.coordinator.address)["lost_nodes"]
        assert lost["host"] == socket.gethostname()
        assert lost["quota_bytes"] > 0
        assert main(["forget", lost["node_id"], "--service", cluster.coordinator.address]) == 0
        wait_until(lambda: NODE not in prometheus.firing(), "one that is gone for good is missed no more", 60)
    finally:
        prometheus.close()


def test_the_reference_has_what_servers_tell_and_no_more(cluster: Cluster) -> None:
    page = runpy.run_path(str(CONFIGS.parent / ".ci" / "site" / "metrics_page.py"))
    text = page["page"]()
    for kind, server in zip(
        ("coordinator", "node", "dispatcher", "worker"),
        (cluster.coordinator, cluster.node, cluster.dispatcher, cluster.workers[0]),
        strict=True,
    ):
        assert server is not None
        with urllib.request.urlopen(f"http://{server.ready['metrics']}/metrics", timeout=20) as reply:
            scraped = reply.read().decode()
        told = {family.name for family in text_string_to_metric_families(scraped)}
        ours = "\n".join(line for line in scraped.splitlines() if "tfquiver_" in line) + "\n"
        linted = subprocess.run(["promtool", "check", "metrics"], input=ours, capture_output=True, text=True)
        assert (linted.returncode, linted.stderr) == (0, ""), kind
        assert {name for name in told if name.startswith("tfquiver_")} == page["names"](kind)
        assert all(f"`{name.removesuffix('_info')}" in text for name in page["names"](kind))


def test_nobody_listens_where_nobody_asked_for_it(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        assert cluster.coordinator.ready["metrics"] == ""
