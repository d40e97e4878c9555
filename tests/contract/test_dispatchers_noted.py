"""That a dispatcher is there, and that it is silent, is in the coordinator's log at once: a coordinator that was killed
moments later, and is started again, must miss it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.aio import on_loop
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import DispatcherKnown
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo
from tfquiver.service.coordinator.commit_log.log_file import parse
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers import SILENT_DISPATCHER_S
from tfquiver.service.coordinator.options import CoordinatorOptions


async def noted(work_dir: Path, count: int) -> list[DispatcherKnown]:
    """The log's records of dispatchers, when there are so many."""
    while True:
        records, _ = parse((work_dir / "commit.log").read_bytes(), "log")
        found = [one.dispatcher_known for one in records if one.HasField("dispatcher_known")]
        if len(found) >= count:
            return found
        await asyncio.sleep(0.001)


@on_loop
async def test_what_is_heard_of_one_waits_for_nobody_else(tmp_path: Path) -> None:
    """Nobody looks after anything here: the coordinator's own tasks, which make all durable, have not been started."""
    clock = ManualClock()
    coordinator = Coordinator(tmp_path, CoordinatorOptions(), clock)
    coordinator.dispatchers.report(DispatcherInfo(address="d:1", id="its"))
    [known] = await asyncio.wait_for(noted(tmp_path, 1), 10)
    assert (known.address, known.id, known.heard_s) == ("d:1", "its", 0)
    clock.advance(SILENT_DISPATCHER_S + 1)
    assert [one.address for one in coordinator.dispatchers.lost()] == ["d:1"]
    _, silent = await asyncio.wait_for(noted(tmp_path, 2), 10)
    assert silent.address == "d:1"
    assert silent.heard_s > 0
    coordinator.dispatchers.leave("d:1")
    assert (await asyncio.wait_for(noted(tmp_path, 3), 10))[-1].gone
    await coordinator.stop()
