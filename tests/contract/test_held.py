"""When a data set is scanned, what its shards' owners have told of it is known: they tell a moment after whoever put
the shards there knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, read_first, started
from tests.support.named_here import scanning, until_done
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.grpc_calls.about_datasets.named_calls import NamedDatasetCalls
from tfquiver.service.coordinator.named_dataset_lifecycle import held as held_module
from tfquiver.service.coordinator.named_dataset_lifecycle.held import Held

SIZE_BYTES = int(DIGEST.lengths.sum())


async def scan_over(coordinator: Coordinator) -> asyncio.Task[bool]:
    """Its node, which has stored nothing, says so; the node `owner` has not told what it was given."""
    beat(coordinator, "owner")
    task = await scanning(coordinator, "set")
    scanner = task.scan.node_id
    over = pb.ReportTaskRequest(node_id=scanner, task_id=task.task_id, over=True, digest_id=DIGEST.digest_id)
    return asyncio.create_task(coordinator.named.report(over))


def tell(coordinator: Coordinator, version: int, hashes: list[bytes]) -> None:
    for node in ("n", "owner"):
        request = coordinator_pb2.HeartbeatRequest(incarnation="1")
        request.inventory.version = version
        request.inventory.added.extend(hashes)
        request.node.node_id, request.node.quota_bytes = node, 1 << 40
        coordinator.heartbeats.take(request)


@on_loop
async def test_it_is_ready_when_the_owners_have_told_of_its_shards(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        report = await scan_over(coordinator)
        hashes = [hash.tobytes() for hash in DIGEST.hashes]
        tell(coordinator, 2, hashes[:-1])  # made before the last one stood
        await asyncio.wait([report], timeout=0.2)
        assert not report.done() and (await until_done(coordinator, "set")).state == pb.NamedDataset.STATE_SCANNING
        tell(coordinator, 3, hashes[-1:])
        assert await report
        assert (await until_done(coordinator, "set")).state == pb.NamedDataset.STATE_READY
        assert await coordinator.named.resident_bytes(DIGEST.digest_id) == SIZE_BYTES


@on_loop
async def test_among_many_nodes_one_that_is_read_is_ready_a_moment_after_the_last_has_told(tmp_path: Path) -> None:
    """What they tell reaches the table of its shards a moment later, when nobody tells anything new."""
    async with started(tmp_path, node_timeout_s=100.0) as coordinator:
        for number in range(200):
            beat(coordinator, f"n{number}")
        await read_first(coordinator, "r", job="j")
        report = await scan_over(coordinator)
        rings, looked, look = list[Callable[[], None]](), asyncio.Event(), coordinator.named._held.resident_bytes

        async def noted(digest_id: bytes) -> int | None:
            looked.set()
            return await look(digest_id)

        coordinator.heartbeats._later = lambda _, ring: rings.append(ring)
        tell(coordinator, 2, [hash.tobytes() for hash in DIGEST.hashes])
        coordinator.named._held.resident_bytes = noted  # type: ignore[method-assign]
        await looked.wait()
        assert not report.done()
        [ring] = rings
        ring()
        async with asyncio.timeout(4):  # or it would wait for as long as it waits at all
            assert await report


@pytest.mark.parametrize("over", [False, True])
@on_loop
async def test_what_a_node_has_told_counts_when_it_says_that_it_is_through(tmp_path: Path, over: bool) -> None:
    """Among many nodes it is gone through a moment later: who has waited for that task looks at once."""
    async with started(tmp_path, node_timeout_s=100.0) as coordinator:
        for number in range(200):
            beat(coordinator, f"n{number}")
        beat(coordinator, "owner")
        await read_first(coordinator, "r", job="j")
        coordinator.heartbeats.settle()
        rings = list[Callable[[], None]]()
        coordinator.heartbeats._later = lambda _, ring: rings.append(ring)
        tell(coordinator, 2, [hash.tobytes() for hash in DIGEST.hashes])
        report = pb.ReportTaskRequest(node_id="owner", task_id="life/2", over=over)
        await NamedDatasetCalls(coordinator).ReportTask(report, None)
        assert rings, "they are gone through later"
        assert await coordinator.named.resident_bytes(DIGEST.digest_id) == (SIZE_BYTES if over else 0)


@on_loop
async def test_one_that_is_not_kept_whole_is_ready_when_every_node_has_been_heard(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        report = await scan_over(coordinator)
        await asyncio.wait([report], timeout=0.1)
        assert not report.done()
        for version in (2, 3):
            tell(coordinator, version, [])
        async with asyncio.timeout(4):  # or it would wait for as long as it waits at all
            assert await report


@on_loop
async def test_one_that_is_deleted_meanwhile_stays_deleted(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        report = await scan_over(coordinator)
        await asyncio.wait([report], timeout=0.1)
        await coordinator.named.delete(EVERYBODY, "set", force=True)
        tell(coordinator, 2, [hash.tobytes() for hash in DIGEST.hashes])
        assert not await report, "it is no task any more"
        assert coordinator.named.find(EVERYBODY, "set").state == pb.NamedDataset.STATE_DELETING


@on_loop
async def test_a_coordinator_that_stops_waits_for_nobody_who_has_not_told(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        report = await scan_over(coordinator)
        await asyncio.wait([report], timeout=0.1)
        assert not report.done()
        coordinator.release_waiters()
        async with asyncio.timeout(4):
            assert await report


@on_loop
async def test_a_look_that_takes_long_is_waited_for_no_longer_than_nodes_wait_for_an_answer(tmp_path: Path) -> None:
    """They would ask again, and again wait in vain: a data set that was scanned would never be ready."""
    async with started(tmp_path) as coordinator:
        held, looking = Held(coordinator.registry, coordinator.membership, coordinator.caching), asyncio.Event()

        async def for_ever(digest_id: bytes) -> int:
            looking.set()
            return await asyncio.Event().wait() or 0

        held.resident_bytes = for_ever  # type: ignore[method-assign]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(held_module, "_PATIENCE_S", 0.1)
            beat(coordinator, "owner")
            await held.told(DIGEST.digest_id, "n")
        assert looking.is_set()


@on_loop
async def test_what_nodes_hold_is_looked_through_when_they_have_told_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, look = list[int](), held_module.what_is_here
    monkeypatch.setattr(held_module, "what_is_here", lambda *given: looks.append(1) or look(*given))
    async with started(tmp_path) as coordinator:
        hashes = [row.tobytes() for row in DIGEST.hashes]
        first = int(DIGEST.lengths[0])

        async def resident() -> int | None:
            return await coordinator.named.resident_bytes(DIGEST.digest_id)

        assert [await resident() for _ in range(3)] == [0, 0, 0] and len(looks) == 1
        beat(coordinator, "owner")
        tell(coordinator, 2, hashes[:1])
        assert [await resident() for _ in range(3)] == [first] * 3 and len(looks) == 2
        tell(coordinator, 3, [])
        assert await resident() == first and len(looks) == 2
        assert await coordinator.named.resident_bytes(DIGEST.digest_id, ["n", "owner"]) == 0 and len(looks) == 3
        assert await resident() == first and len(looks) == 3
        await coordinator.leave("n", "1")
        assert await resident() == first and len(looks) == 4, "the other one has it"
        await coordinator.leave("owner", "1")
        assert await resident() == 0
