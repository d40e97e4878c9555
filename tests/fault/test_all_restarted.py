"""Every server of a cluster is restarted, one after the other, while jobs train: as a rolling upgrade does it.

What it costs is measured by tests/bench/rolling_restart.py, whose cluster and jobs these are; here steps are so short
that jobs read all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tfquiver
from tests.bench import rolling_restart
from tests.bench.rolling_restart import FILES, RECORD_BYTES, RECORDS, STOP_S, TOTAL, Servers, Trainer
from tests.support import numbered
from tests.support.cluster import wait_until

END_S = 120.0


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    numbered.write(tmp_path / "data", FILES, RECORDS, RECORD_BYTES)
    running = Servers(tmp_path)
    try:
        yield running
    finally:
        for server in reversed(running.all):
            server.kill()


@pytest.mark.timeout(280)
def test_jobs_go_on_and_read_each_record_once_in_each_epoch(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling_restart, "STEP_S", 0.01)
    trainers = [Trainer(name, epoch) for name, epoch in rolling_restart.epochs(servers).items()]

    def read_on() -> None:
        """Each of them, another few batches: what was on its way when this began is read by then."""
        for one in trainers:
            enough = len(one.records) + 20
            wait_until(
                lambda one=one, enough=enough: one.error or len(one.records) > enough, f"{one.name} reads on", 60
            )  # type: ignore[misc]
            assert one.error is None, one.name

    read_on()
    processes = [server.process.pid for server in servers.all]
    for server in servers.all:
        assert server.stop(STOP_S) == 0, server.log_tail()
        server.restart()
        read_on()
    assert not set(processes) & {server.process.pid for server in servers.all}, "each was restarted"
    for one in trainers:
        one.finish(END_S)
        assert one.epochs, one.name
        for epoch in one.epochs:
            numbered.assert_each_once(epoch, TOTAL)
    assert tfquiver.status(servers.coordinator.address)["lost_nodes"] == []
