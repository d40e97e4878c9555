"""What Prometheus is told to be counted of a job only rises: what falls it takes for counted anew, from 0."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, parts, read_first, started
from tests.support.digests import numbered_digest
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.long_work import in_parts
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import FORGET_S, SILENT_S
from tfquiver.service.metrics import coordinator_metrics as metrics

MB = 10**6
VALIDATION = numbered_digest(10, "validation")


async def counted(coordinator: Coordinator) -> tuple[float, float]:
    found = {family.name: family async for family in metrics.families(coordinator)}
    [hits], [misses] = (found[f"tfquiver_job_{kind}_bytes"].samples for kind in ("hit", "missed"))
    assert hits.labels == misses.labels == {"training_job": "run"}
    return hits.value, misses.value


@on_loop
async def test_a_data_set_that_is_read_no_more_stays_counted(tmp_path: Path) -> None:
    """As that of a validation, between two of them, and long after the last one."""
    clock = ManualClock()
    async with started(tmp_path, 1e9, clock) as coordinator:
        await coordinator.catalogue.register("", b"", None, parts(VALIDATION))
        for reader, digest in (("training", DIGEST), ("validating", VALIDATION)):
            await read_first(coordinator, reader, digest.digest_id, job="run")
        ids = {session.digest_id: session.session_id for session in coordinator.sessions}
        second = 0

        def tell(reader: str, digest_id: bytes) -> None:
            report = pb.ReaderReport(
                session_id=ids[digest_id], reader_id=reader, records=second, bytes=10 * second * MB,
                elapsed_us=second * 10**6, hit_bytes=4 * second * MB, missed_bytes=6 * second * MB,
            )  # fmt: skip
            coordinator.meters.take([report])

        for second in range(1, 31):  # noqa: B007 - `tell` uses it
            clock.advance(1.0)
            tell("training", DIGEST.digest_id)
            tell("validating", VALIDATION.digest_id)
        assert await counted(coordinator) == (2 * 30 * 4 * MB, 2 * 30 * 6 * MB)
        for pause_s in (SILENT_S + 1, FORGET_S):
            clock.advance(pause_s)
            second += int(pause_s)
            tell("training", DIGEST.digest_id)
            assert await counted(coordinator) == ((second + 30) * 4 * MB, (second + 30) * 6 * MB)
        assert len(coordinator.meters.of_name("run")) == 1, "the other one is forgotten"
        clock.advance(FORGET_S + 1)
        coordinator.meters.take([])
        assert coordinator.meters.handed_bytes("run") == (0, 0), "and nothing is kept of who is gone"


@on_loop
async def test_thousands_of_jobs_are_told_while_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten thousand the loop was held for a third of a second, at each scrape."""
    monkeypatch.setattr(in_parts, "PART_S", 0.0)  # others come in wherever they may, on any machine
    turns = 0

    async def served() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with started(tmp_path, 1e9, ManualClock()) as coordinator:
        for number in range(1000):
            await read_first(coordinator, f"reader-{number}", DIGEST.digest_id, job=f"run-{number}")
        coordinator.meters.take(
            pb.ReaderReport(session_id=one.session_id, reader_id=f"reader-{one.job[4:]}", records=1, bytes=MB)
            for one in coordinator.sessions
        )
        assert len(list(coordinator.meters)) == 1000
        others = asyncio.create_task(served())
        before: dict[str, int] = {}
        async for family in metrics.families(coordinator):
            before[family.name] = turns
        others.cancel()
        assert before["tfquiver_job_hit_bytes"] - before["tfquiver_coordinator_readers"] > 500
