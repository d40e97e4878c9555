"""A reader that says neither its job nor a key is planned for like any: it keeps nobody's plan from being made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, SECOND, SECOND_BYTES, beat, cached, coordinating, plans, reads
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.options import CoordinatorOptions


@on_loop
async def test_it_is_planned_for_with_the_others(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES + SECOND_BYTES) as coordinator:
        await reads(coordinator, "job", FIRST)
        await reads(coordinator, "job", SECOND)
        for digest in (FIRST, SECOND):
            request = pb.OpenReaderRequest(
                reader_id=f"nameless {digest.name}", node_id="a", incarnation="1", digest_id=digest.digest_id
            )
            await coordinator.reading.open_reader(request)
        planning = await plans(coordinator)
        assert cached(coordinator, FIRST).allocation_bytes == FIRST_BYTES
        told = await planning.explain(FIRST.name)
        assert "(no name)" in " ".join(told.probes)


@on_loop
async def test_what_a_policy_allows_it_of_the_store_holds(tmp_path: Path) -> None:
    """It was planned for by its key and charged by its name: by none, and read as it could."""
    clock, store_bytes_per_s = ManualClock(), 1000
    options = CoordinatorOptions(policy="silod_greedy", store_bytes_per_s=store_bytes_per_s)
    coordinator = Coordinator(tmp_path / "work", options, clock)
    try:
        beat(coordinator, "a", FIRST_BYTES // 10)
        session_ids = [await reads(coordinator, "", digest, f"key of {digest.name}") for digest in (FIRST, SECOND)]
        await plans(coordinator)
        assert set(coordinator.budgets.allocated) == {"key of first", "key of second"}
        read_bytes, sequence = 0, 0
        for _ in range(50):
            coordinator.budgets.tick(coordinator.sessions.jobs_of(), ())
            for session_id, digest in zip(session_ids, (FIRST, SECOND), strict=True):
                sequence += 1
                lease = pb.LeaseRequest(session_id=session_id, sequence=sequence, max_shards=5, max_bytes=1 << 20)
                lease.reader_id = f"key of {digest.name} {digest.name}"
                result, table = await coordinator.reading.lease(lease)
                read_bytes += sum(int(table.lengths[shard]) for shard in result.shards)
            clock.advance(0.1)
        assert read_bytes == pytest.approx(5 * store_bytes_per_s, rel=0.3)
    finally:
        await coordinator.stop()
