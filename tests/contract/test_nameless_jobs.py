"""A reader that says neither its job nor a key is planned for like any: it keeps nobody's plan from being made."""

from __future__ import annotations

from pathlib import Path

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, SECOND, SECOND_BYTES, cached, coordinating, plans, reads
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb


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
