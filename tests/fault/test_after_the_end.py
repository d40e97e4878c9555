"""kill -9 when the source has come to its end, and the workers have not delivered all that it has emitted (I-8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import numbered
from tests.support.cluster import Server, wait_until
from tests.support.late_service import RECORDS_A_FILE, LateService, behind, launch, settled
from tests.support.worker_forks import Worker

pytestmark = pytest.mark.long

FILES = 4
TOTAL = FILES * RECORDS_A_FILE
READAHEAD_BYTES = 100_000
STEP_S = 0.04


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LateService]:
    with LateService(tmp_path) as made:
        yield made.start()


def test_workers_that_come_back_read_again_what_they_were_lost_with(service: LateService) -> None:
    """Later than others are waited for; alone, and with everybody who could know what is missing."""
    assert service.cluster.node is not None
    shared = service.distributed(service.source(FILES, READAHEAD_BYTES))
    also: list[list[Worker | Server]] = [[], [service.cluster.coordinator, service.cluster.node, service.dispatcher]]
    for epoch, others in enumerate(also):
        reader = numbered.EpochReader(shared, STEP_S, allowed=1)
        behind(service.cluster, epoch, reader, TOTAL)
        for server in [*service.workers, *others]:
            server.kill()
        reader.allow()
        for server in others:
            server.launch_again() if isinstance(server, Server) else server.launch()
            server.await_ready()
        with pytest.raises(TimeoutError):  # longer than --worker_timeout_ms
            reader.result(deadline_s=3)
        launch(service.workers)
        lost, duplicates = numbered.lost_and_duplicates(reader.result(), TOTAL)
        assert lost == 0
        assert duplicates > 0, "what was held back is read again, delivered or not"
        wait_until(lambda at=epoch: settled(service.cluster, at), "the end of what was read again")  # type: ignore[misc]
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)


def test_a_worker_that_is_restarted_slowly_reads_again_what_it_was_lost_with(tmp_path: Path) -> None:
    """Nobody listens at its address meanwhile, for longer than it takes to call it lost by that: some seconds; its
    silence alone would take ten minutes. It is the only one: of two the trainer may be behind the other one alone."""
    with LateService(tmp_path, ["--worker_timeout_ms=600000"]) as service:
        service.start(workers=1)
        shared = service.distributed(service.source(FILES, READAHEAD_BYTES))
        reader = numbered.EpochReader(shared, STEP_S, allowed=1)
        behind(service.cluster, 0, reader, TOTAL)
        (restarted,) = service.workers
        restarted.kill()
        reader.allow()
        said = f"worker {restarted.address} is lost"
        wait_until(lambda: said in (tmp_path / "dispatcher.log").read_text(), "it is called lost")
        launch([restarted])
        lost, _ = numbered.lost_and_duplicates(reader.result(), TOTAL)
        assert lost == 0
        numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)


def test_nobody_to_ask_is_no_end(service: LateService) -> None:
    """The coordinator comes back later than a late reader asks without an error (15 s)."""
    shared = service.distributed(service.source(FILES, READAHEAD_BYTES))
    reader = numbered.EpochReader(shared, STEP_S, allowed=1)
    behind(service.cluster, 0, reader, TOTAL)
    for server in (*service.workers, service.cluster.coordinator):
        server.kill()
    reader.allow()
    launch(service.workers)
    with pytest.raises(TimeoutError):
        reader.result(deadline_s=20)
    service.cluster.coordinator.launch_again().await_ready()
    lost, duplicates = numbered.lost_and_duplicates(reader.result(), TOTAL)
    assert lost == 0
    assert duplicates > 0, "what was held back is read again, delivered or not"
