"""Several machines begin with the same new files at the same moment: one of them reads these from the store."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster, Server, wait_until
from tests.support.started_nodes import nodes_started
from tfquiver import CutPolicy

NODES, FILES, RECORDS = 3, 8, 4000
TOTAL = FILES * RECORDS
CUT = CutPolicy(100_000, 200_000, 400_000)
paths = numbered.fixture(FILES, RECORDS, 1000)
Hosts = tuple[Cluster, list[Server]]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(tmp_path / "cluster", workers=0, shared_node=False))
        start = stack.enter_context(nodes_started(tmp_path))
        yield cluster, [start(f"--coordinator={cluster.coordinator.address}", name=f"disk{at}") for at in range(NODES)]


def begun(cluster: Cluster, node: Server, paths: list[Path]) -> Any:
    directory = next(flag.partition("=")[2] for flag in node.arguments if flag.startswith("--cache_dir="))
    return tfquiver.dataset(
        paths, service=cluster.coordinator.address, cache_dir=directory, first_use=tfquiver.FirstUse(cut=CUT)
    )


def test_one_of_them_reads_them(hosts: Hosts, paths: list[Path]) -> None:
    cluster, nodes = hosts
    with ThreadPoolExecutor(NODES) as at_once:
        made = list(at_once.map(lambda node: begun(cluster, node, paths), nodes))
    numbered.assert_each_once(numbered.read(made[-1]), TOTAL)
    read = sum(node["store_bytes"] for node in tfquiver.status(cluster.coordinator.address)["nodes"])
    assert read < 1.1 * sum(path.stat().st_size for path in paths), "and the hundred bytes that a look at files takes"


def test_the_others_go_on_where_that_one_is_killed(hosts: Hosts, paths: list[Path]) -> None:
    cluster, nodes = hosts
    with ThreadPoolExecutor(NODES) as at_once:
        making = [at_once.submit(begun, cluster, node, paths) for node in nodes]

        def scanning() -> list[Server]:
            told = {one["node_id"]: one for one in tfquiver.status(cluster.coordinator.address)["nodes"]}
            return [node for node in nodes if told.get(node.ready["node_id"], {}).get("store_bytes", 0)]

        wait_until(lambda: bool(scanning()) or all(one.done() for one in making), "one scans")
        (scanner,) = scanning()
        scanner.process.send_signal(signal.SIGSTOP)
        others = [one for one, node in zip(making, nodes, strict=True) if node is not scanner]
        made = [one.result(60) for one in others]
        numbered.assert_each_once(numbered.read(made[0]), TOTAL)
        scanner.process.send_signal(signal.SIGCONT)
