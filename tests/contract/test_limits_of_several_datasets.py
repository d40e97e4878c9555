"""What a job may read from the store is for all its data sets together, to policies as to budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.digests import numbered_digest
from tests.support.planning import FIRST, FIRST_BYTES, SECOND, beat, plans, reads
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.options import CoordinatorOptions

THIRD = numbered_digest(400, "third")


@on_loop
async def test_what_its_limit_leaves_of_the_store_is_for_others_however_many_it_reads(tmp_path: Path) -> None:
    options = CoordinatorOptions(policy="silod_greedy", store_bytes_per_s=100_000_000)
    coordinator = Coordinator(tmp_path / "work", options)
    try:
        beat(coordinator, "a", FIRST_BYTES // 10)
        for job, digest in (("several", FIRST), ("several", SECOND), ("one", THIRD)):
            await reads(coordinator, job, digest)
        await coordinator.allocate_remote_io("several", 40e6)
        planning = await plans(coordinator)
        assert coordinator.budgets.allocated == {"several": 40e6, "one": pytest.approx(60e6)}
        planned = planning.planner.plan.remote_bytes_per_s
        assert sorted(planned.values()) == [20e6, 20e6, pytest.approx(60e6)]
    finally:
        await coordinator.stop()
