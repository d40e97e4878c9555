"""What nodes register while data sets that have names are scanned, and who that is deleted with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, read_first, started
from tests.support.named_here import OTHER, of, scanned, scanning, until_done
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.grpc_calls.about_datasets.dataset_calls import DatasetCalls


class Called:
    """What gRPC gives with a call, as far as this one asks."""

    def peer(self) -> str:
        return "unix:"


async def registered(coordinator: Coordinator, name: str, digest: Digest, task_id: str = "") -> None:
    """As nodes do it: `task_id` where they scan for a data set with a name, none where a trainer has asked."""

    async def requests() -> AsyncIterator[coordinator_pb2.RegisterDatasetRequest]:
        yield coordinator_pb2.RegisterDatasetRequest(name=name, task_id=task_id)
        yield coordinator_pb2.RegisterDatasetRequest(part=digest.to_bytes())

    await DatasetCalls(coordinator).RegisterDataset(requests(), Called())


async def deleted(coordinator: Coordinator, name: str) -> list[bytes]:
    """Its versions that nodes were told to delete."""
    await coordinator.named.look()
    [task] = coordinator.named.tasks
    assert await coordinator.named.report(pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True))
    await coordinator.named.look()
    assert name not in coordinator.named_table
    return list(task.evict.digest_ids)


def no_match(scan: coordinator_pb2.DatasetTask) -> pb.ReportTaskRequest:
    return pb.ReportTaskRequest(node_id="n", task_id=scan.task_id, over=True, error_code=5, trouble="no match")


@pytest.mark.parametrize("comes_late", [False, True])
@on_loop
async def test_what_a_scan_has_registered_goes_with_its_data_set(tmp_path: Path, comes_late: bool) -> None:
    """Its node has not said yet that the task is over, and is told that it is not wanted any more."""
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        scan = await scanning(coordinator)
        if not comes_late:
            await registered(coordinator, "train", OTHER, scan.task_id)
        await named.delete(EVERYBODY, "train", force=False)
        if comes_late:
            await registered(coordinator, "train", OTHER, scan.task_id)
        over = pb.ReportTaskRequest(node_id="n", task_id=scan.task_id, over=True, digest_id=OTHER.digest_id)
        assert not await named.report(over)
        assert await deleted(coordinator, "train") == [OTHER.digest_id]
        assert coordinator.registry.removed([OTHER.digest_id])


@pytest.mark.slow
@pytest.mark.parametrize("then", ["it is deleted", "its source is another", "it is scanned"])
@on_loop
async def test_what_a_scan_has_registered_has_an_owner_though_the_coordinator_is_killed(
    tmp_path: Path, then: str
) -> None:
    """Its node heard nothing of it; what comes of its scan when it asks again is something else. It was nobody's for
    good, with all its shards."""
    async with started(tmp_path) as coordinator:
        scan = await scanning(coordinator)
        await registered(coordinator, "train", OTHER, scan.task_id)
    async with started(tmp_path) as coordinator:
        if then == "it is deleted":
            await coordinator.named.delete(EVERYBODY, "train", force=True)
            await until_done(coordinator, "train")
            assert await deleted(coordinator, "train") == [OTHER.digest_id]
        else:
            is_same = then == "it is scanned"
            await coordinator.catalogue.register("", b"", None, parts(DIGEST))
            told = await scanned(coordinator, "train", OTHER if is_same else DIGEST)
            assert told.state == pb.NamedDataset.STATE_READY
            assert told.old_versions == (0 if is_same else 1), "it goes as those do"


@pytest.mark.slow
@on_loop
async def test_what_a_scan_registers_after_its_data_set_was_deleted_and_all_restarted_goes(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        scan = await scanning(coordinator)
        await coordinator.named.delete(EVERYBODY, "train", force=True)
    async with started(tmp_path) as coordinator:
        await until_done(coordinator, "train")
        await registered(coordinator, "train", OTHER, scan.task_id)
        assert await deleted(coordinator, "train") == [OTHER.digest_id]
        assert OTHER.digest_id not in coordinator.registry


@pytest.mark.parametrize("fails", ["before it", "after it", "not"])
@on_loop
async def test_what_a_trainer_registers_under_a_scans_name_stays(tmp_path: Path, fails: str) -> None:
    """By its node, under the stem of its files: those of the scan are others, or cannot be read."""
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        scan = await scanning(coordinator, source="/typo")
        failed = no_match(scan)
        if fails == "before it":
            assert await named.report(failed)
            assert (await until_done(coordinator, "train")).state == pb.NamedDataset.STATE_FAILED
        await registered(coordinator, "train", OTHER)
        if fails == "after it":
            assert await named.report(failed)
            assert (await until_done(coordinator, "train")).state == pb.NamedDataset.STATE_FAILED
        await named.delete(EVERYBODY, "train", force=False)
        await registered(coordinator, "train", DIGEST)
        assert await deleted(coordinator, "train") == []
        assert OTHER.digest_id in coordinator.registry
        assert DIGEST.digest_id in coordinator.registry


@on_loop
async def test_what_an_earlier_scan_has_registered_is_not_the_next_ones(tmp_path: Path) -> None:
    """Its data set has heard that it failed: others may have come to use what it has registered."""
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        scan = await scanning(coordinator)
        await registered(coordinator, "train", OTHER, scan.task_id)
        failed = no_match(scan)
        assert await named.report(failed)
        await until_done(coordinator, "train")
        await named.refresh(EVERYBODY, "train")
        await named.delete(EVERYBODY, "train", force=False)
        assert await deleted(coordinator, "train") == []
        assert OTHER.digest_id in coordinator.registry


@on_loop
async def test_a_delete_that_is_refused_marks_nothing(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await named.create(EVERYBODY, pb.DatasetSpec(name="train", sources=["/x"]))
        await scanned(coordinator, "train", DIGEST)
        await read_first(coordinator, "reader")
        await named.refresh(EVERYBODY, "train")
        await until_done(coordinator, "train")
        [scan] = named.tasks
        with pytest.raises(errors.InUseError, match="reader reads train"):
            await named.delete(EVERYBODY, "train", force=False)
        failed = no_match(scan)
        assert await named.report(failed)
        await until_done(coordinator, "train")
        await named.delete(EVERYBODY, "train", force=True)
        await registered(coordinator, "train", OTHER, scan.task_id)
        assert await deleted(coordinator, "train") == [DIGEST.digest_id]
        assert OTHER.digest_id in coordinator.registry


@on_loop
async def test_what_a_job_registers_under_a_name_that_is_being_deleted_stays(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await named.create(EVERYBODY, of("photos"))
        await until_done(coordinator, "photos")
        await named.delete(EVERYBODY, "photos", force=False)
        await registered(coordinator, "photos", OTHER)
        assert await deleted(coordinator, "photos") == [DIGEST.digest_id]
        assert OTHER.digest_id in coordinator.registry


@on_loop
async def test_what_is_deleted_while_owners_of_a_scans_shards_are_waited_for_goes_whole(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await coordinator.catalogue.register("before a restart", b"", None, parts(OTHER))
        beat(coordinator, "owner")
        scan = await scanning(coordinator)
        over = pb.ReportTaskRequest(task_id=scan.task_id, over=True, digest_id=OTHER.digest_id)
        over.node_id = scan.scan.node_id
        reported = asyncio.create_task(named.report(over))
        async with asyncio.timeout(20):
            while not coordinator.named_table.of_task(scan.task_id).found_digest_id:
                await asyncio.sleep(0)
        await named.delete(EVERYBODY, "train", force=False)
        for node in ("n", "owner", "n", "owner"):
            beat(coordinator, node)
        assert not await reported
        await named.look()
        [task] = named.tasks
        assert list(task.evict.digest_ids) == [OTHER.digest_id]
