"""A second coordinator stands by: it goes on with the first one's sessions; who was replaced writes nothing more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import tfquiver
from tests.support import fixed_ports, numbered
from tests.support.cluster import Server, first_line, wait_until
from tests.support.node_calls import sessions
from tfquiver.grpc_plumbing import addresses

FILES, RECORDS, RECORD_BYTES = 8, 3000, 4096  # several times what is leased and read ahead
TOTAL = FILES * RECORDS
TAKEOVER_S = 10.0


class Pair:
    """Two coordinators of one directory, and a node that knows of both; with the flags that servers have by default."""

    def __init__(self, base: Path) -> None:
        self.base = base
        work_dir = f"--work_dir={base / 'coordinator'}"
        self.first = Server("tfquiver.service.coordinator.main", [work_dir, "--port=0"], base / "first.log").start()
        port = fixed_ports.free_port(addresses.to_bind("localhost"))
        standby = [work_dir, f"--port={port}", "--standby"]
        self.second = Server("tfquiver.service.coordinator.main", standby, base / "second.log").launch()
        self.address = f"{self.first.address},localhost:{port}"
        self.cache_dir = base / "cache"
        node = [f"--cache_dir={self.cache_dir}", "--port=0", "--quota=1GiB", f"--coordinator={self.address}"]
        self.node = Server("tfquiver.service.node.main", node, base / "node.log").start()
        wait_until(lambda: "standing by" in self.second.log_tail(), "the second one stands by")

    def stop(self) -> None:
        for server in (self.node, self.second, self.first):
            server.stop()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.stop()


@pytest.mark.long
def test_the_second_goes_on_where_the_first_was_killed(pair: Pair, tmp_path: Path) -> None:
    numbered.write(tmp_path / "data", FILES, RECORDS, RECORD_BYTES)
    data = tfquiver.dataset(f"{tmp_path}/data/part-*", service=pair.address, cache_dir=pair.cache_dir, job="trial")
    reader = numbered.EpochReader(data)
    reader.reached(RECORDS // 4)
    [before] = [one for one in sessions(pair.address) if one.readers]
    pair.first.kill()
    numbered.assert_each_once(reader.result(), TOTAL)
    assert reader.longest_wait_s < TAKEOVER_S, f"after {reader.waited_after} of {TOTAL} records"
    pair.second.await_ready()
    [after] = [one for one in sessions(pair.address) if one.session_id == before.session_id]
    assert (after.acked, after.ended, after.shortfall) == (after.shards, True, 0)
    # And once more, the other way round: the first one is started again, and stands by.
    pair.first.arguments = [a for a in pair.first.arguments if not a.startswith("--port=")]
    pair.first.arguments += [f"--port={pair.first.port}", "--standby"]
    pair.first.launch()
    wait_until(lambda: "standing by" in pair.first.log_tail(), "the first one stands by")
    reader = numbered.EpochReader(data)
    reader.reached(RECORDS // 4)
    assert pair.second.stop() == 0
    numbered.assert_each_once(reader.result(), TOTAL)
    assert reader.longest_wait_s < TAKEOVER_S, f"after {reader.waited_after} of {TOTAL} records"


def test_one_that_does_not_stand_by_says_who_holds_the_directory(tmp_path: Path) -> None:
    arguments = [f"--work_dir={tmp_path / 'work'}", "--port=0"]
    first = Server("tfquiver.service.coordinator.main", arguments, tmp_path / "first.log").start()
    try:
        command = [sys.executable, "-m", "tfquiver.service.coordinator.main", *arguments]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 1
        assert f"another coordinator holds it (pid {first.process.pid} on {os.uname().nodename})" in second.stderr
    finally:
        first.stop()


def test_who_stands_by_does_not_begin_anew_where_the_directory_is_not_mounted(tmp_path: Path) -> None:
    work_dir = tmp_path / "share" / "work"
    arguments = [f"--work_dir={work_dir}", f"--port={fixed_ports.free_port(addresses.to_bind('localhost'))}"]
    second = Server("tfquiver.service.coordinator.main", [*arguments, "--standby"], tmp_path / "second.log").launch()
    try:
        wait_until(lambda: "is it not mounted here?" in second.log_tail(), "it says so")
        assert not work_dir.exists()
        first = Server(
            "tfquiver.service.coordinator.main", [f"--work_dir={work_dir}", "--port=0"], tmp_path / "first.log"
        ).start()
        wait_until(lambda: "another coordinator holds it" in second.log_tail(), "the second one sees the first")
        first.kill()
        second.await_ready()
    finally:
        second.stop()


def test_who_stands_by_is_up_for_prometheus(tmp_path: Path) -> None:
    """For ever down else: a critical alert, so that nobody hears of one that is."""
    module, work_dir = "tfquiver.service.coordinator.main", f"--work_dir={tmp_path / 'work'}"
    shared, own = fixed_ports.free_port(), fixed_ports.free_port()
    flags = [work_dir, "--port=0", f"--metrics_address=127.0.0.1:{shared}"]
    first = Server(module, flags, tmp_path / "first.log").start()
    alike = Server(module, [*flags, "--standby"], tmp_path / "alike.log").launch()
    second = Server(
        module, [work_dir, "--port=0", f"--metrics_address=127.0.0.1:{own}", "--standby"], tmp_path / "second.log"
    ).launch()
    try:
        wait_until(lambda: _stands_by(own) == 1, "the second one tells that it stands by")
        said = json.loads(first_line(second.process, 60))
        assert said == {
            "server": "coordinator", "pid": second.process.pid, "stands_by": True, "work_dir": str(tmp_path / "work"),
            "metrics": f"127.0.0.1:{own}",
        }  # fmt: skip
        wait_until(lambda: "not seen by Prometheus" in alike.log_tail(), "that of the first one's port says so")
        assert _stands_by(shared) == 0, "the first one's"
        alike.stop()
        first.kill()
        assert second.await_ready().ready["metrics"] == f"127.0.0.1:{own}"
        assert _stands_by(own) == 0
    finally:
        for server in (second, alike, first):
            server.stop()


def _stands_by(port: int) -> float | None:
    """As it tells Prometheus; None: nobody does."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
            text = reply.read().decode()
    except OSError:
        return None
    found = {family.name: family.samples for family in text_string_to_metric_families(text)}
    return found["tfquiver_coordinator_stands_by"][0].value


def test_who_was_replaced_writes_nothing_more_and_ends(tmp_path: Path) -> None:
    """As on a network file system whose server has given the lock to another, while the first one was not heard of."""
    work_dir = tmp_path / "work"
    server = Server(
        "tfquiver.service.coordinator.main", [f"--work_dir={work_dir}", "--port=0"], tmp_path / "log"
    ).start()
    try:
        (work_dir / "lock").write_text('{"pid": 7, "host": "other", "incarnation": "x"}')
        log = (work_dir / "commit.log").read_bytes()
        assert server.process.wait(TAKEOVER_S) == 1
        assert "another coordinator has taken over (pid 7 on other)" in server.log_tail()
        assert (work_dir / "commit.log").read_bytes() == log
    finally:
        server.stop()
