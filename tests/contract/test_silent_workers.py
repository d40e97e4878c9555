"""A tf.data service worker that does not answer: people, metrics and those who wait for changes hear of it alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import started
from tfquiver.cli.calls import plain
from tfquiver.cli.status_tables_and_warnings import workers_view
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo, ServiceWorker
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.metrics import coordinator_metrics as metrics

ANSWERS, SILENT = 4_999, 5_000
LONG = 3_600_000


def info(silent_ms: int, idle_ms: int = 0) -> DispatcherInfo:
    return DispatcherInfo(address="d:1", workers=[ServiceWorker(address="w:1", silent_ms=silent_ms, idle_ms=idle_ms)])


async def measured(coordinator: Coordinator) -> float:
    families = {family.name: family async for family in metrics.families(coordinator)}
    return float(families["tfquiver_coordinator_silent_workers"].samples[0].value)


@on_loop
@pytest.mark.parametrize(("silent_ms", "idle_ms", "missed"), [
    (ANSWERS, 0, False), (SILENT, 0, True), (7_000, 0, True), (LONG, 0, True), (LONG, LONG, False),
])  # fmt: skip
async def test_status_and_metrics_agree(tmp_path: Path, silent_ms: int, idle_ms: int, missed: bool) -> None:
    """One that nobody has waited for any more for long has gone for good: its dispatcher never forgets it."""
    async with started(tmp_path) as coordinator:
        coordinator.dispatchers.report(info(silent_ms, idle_ms))
        shown = [plain(one) for one in coordinator.dispatchers.live()]
        assert [bool(list(workers_view.problems(shown))), await measured(coordinator)] == [missed, float(missed)]


@on_loop
async def test_silence_is_news(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        told = []
        for silent_ms in (0, ANSWERS, SILENT, LONG):
            coordinator.dispatchers.report(info(silent_ms))
            told.append(coordinator.dispatchers.told())
        assert told[0] == told[1] != told[2] == told[3]


@on_loop
async def test_so_is_that_a_part_is_not_asked_for(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        told = []
        for unread_ms in (0, 9_999, 10_000, 60_000):
            worker = ServiceWorker(address="w:1", unread_ms=unread_ms, unread_left_ms=1000)
            coordinator.dispatchers.report(DispatcherInfo(address="d:1", workers=[worker]))
            told.append(coordinator.dispatchers.told())
        assert told[0] == told[1] != told[2] == told[3]
