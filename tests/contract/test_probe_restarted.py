"""A coordinator that is killed while a job is probed: the next one has it read as ever, and probes it anew."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, beat, coordinating, plans, reads
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.sessions.lease import LeaseResult

_READING = "job", FIRST.digest_id
_READER = f"job {FIRST.name}"


class Job:
    """Its node reports it each second: waits half of its time, reads 1 GB/s, misses all."""

    def __init__(self, clock: ManualClock, session_id: str) -> None:
        self.clock, self.seconds, self.session_id = clock, 0, session_id

    async def reads_on(self, coordinator: Coordinator, until_probed: bool) -> bool:
        """For a minute; whether it is to read past the cache then, or `until_probed` was before."""
        for _ in range(60):
            self.clock.advance(1.0)
            self.seconds += 1
            beat(coordinator, "a", 2 * FIRST_BYTES, pb.ReaderReport(
                session_id=self.session_id, reader_id=_READER, records=self.seconds * 1000,
                bytes=self.seconds * 10**9, waited_us=self.seconds * 500_000, elapsed_us=self.seconds * 1_000_000,
                missed_bytes=self.seconds * 10**9,
            ))  # fmt: skip
            await plans(coordinator)
            if until_probed and _READING in coordinator.probed:
                return True
        return _READING in coordinator.probed

    async def leased(self, coordinator: Coordinator, sequence: int) -> LeaseResult:
        request = pb.LeaseRequest(
            session_id=self.session_id, reader_id=_READER, sequence=sequence, max_shards=1, max_bytes=1 << 30
        )
        return (await coordinator.reading.lease(request))[0]


@on_loop
async def test_a_job_is_normal_again_and_probed_anew(tmp_path: Path) -> None:
    clock = ManualClock()
    async with coordinating(tmp_path, clock=clock, a=2 * FIRST_BYTES) as coordinator:
        await coordinator.start()
        job = Job(clock, await reads(coordinator, "job", FIRST))
        assert await job.reads_on(coordinator, until_probed=True)
        before = await job.leased(coordinator, 1)
        assert before.bypass
        (held,) = before.shards
        await coordinator._log.synced()
        (tmp_path / "killed").mkdir()
        shutil.copytree(tmp_path / "work", tmp_path / "killed" / "work")
    async with coordinating(tmp_path / "killed", clock=clock, a=2 * FIRST_BYTES) as coordinator:
        await coordinator.start()
        await coordinator.reading.open_reader(pb.OpenReaderRequest(
            reader_id=_READER, node_id="a", incarnation="1", digest_id=FIRST.digest_id, job="job",
            session_id=job.session_id, held=[held],
        ))  # fmt: skip
        coordinator.caching._met_at = 0.0
        assert not (await job.leased(coordinator, 1)).bypass
        assert coordinator.probes.result(*_READING) is None, "half a probe is none"
        assert await job.reads_on(coordinator, until_probed=True)
        assert (await job.leased(coordinator, 2)).bypass
        for _ in range(10):
            await job.reads_on(coordinator, until_probed=False)
        assert _READING not in coordinator.probed, "it came to its end"
