"""A new job over a small data set is not made to read it from the store again and again, for a probe."""

from __future__ import annotations

from pathlib import Path

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, coordinating, reads


@on_loop
async def test_what_was_not_kept_counts_where_there_is_room(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=2 * FIRST_BYTES) as coordinator:
        session_id = await reads(coordinator, "job", FIRST)
        table = coordinator.residency.table(FIRST.digest_id)
        shards = list(range(FIRST.num_shards))
        key = "job", FIRST.digest_id

        def extra_bytes() -> int:
            coordinator.read_past_cache(session_id, table, shards)
            return coordinator.probes.extra_bytes(*key)

        assert extra_bytes() == 0, "the first time all of it misses anyway"
        assert extra_bytes() == 0, "nothing of it is kept: there is no setting yet"
        assert coordinator.replanning
        await coordinator.replanning.measure()
        await coordinator.replanning.look()
        coordinator.probes.again(*key, shards, FIRST.num_shards)
        assert extra_bytes() >= 0.99 * FIRST.size_bytes
