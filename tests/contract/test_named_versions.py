"""Old versions of data sets that have names: who keeps them, and who gives the room of one that is pinned."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, read_first, started
from tests.support.digests import numbered_digest
from tests.support.named_here import OTHER, of, scanned, until_done
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MountReport
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_caching.caching import LONGEST_MEETING_S
from tfquiver.service.coordinator.dataset_caching.placement import Placement
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.nodes_mounts_dispatchers.mounts import KEPT_S
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.sessions.lease import LeaseState


@on_loop
async def test_a_job_keeps_its_version_while_it_builds_its_model_and_between_epochs(tmp_path: Path) -> None:
    clock, hour_s = ManualClock(), CoordinatorOptions().session_ended_s
    async with started(tmp_path, clock=clock) as coordinator:
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        await coordinator.named.create(EVERYBODY, pb.DatasetSpec(name="train", sources=["/x"], pin=True))
        await scanned(coordinator, "train", DIGEST)
        await coordinator.named.refresh(EVERYBODY, "train")
        assert (await scanned(coordinator, "train", OTHER)).old_versions == 1, "its model may be under way"
        assert set(coordinator.caching.placement.pins) == {DIGEST.digest_id, OTHER.digest_id}, "there is room for both"
        clock.advance(hour_s - 1)
        beat(coordinator)
        for reader in ("first epoch", "second epoch"):
            assert await read_first(coordinator, reader, DIGEST.digest_id) == LeaseState.LEASED
            coordinator.sessions.node_lost("n")  # the epoch is over
            assert (await until_done(coordinator, "train")).old_versions == 1
        clock.advance(2.0)
        beat(coordinator)
        assert (await until_done(coordinator, "train")).old_versions == 1, "a session of it is remembered"
        clock.advance(hour_s)
        beat(coordinator)
        coordinator.sessions.expire()
        assert (await until_done(coordinator, "train")).old_versions == 0
        assert DIGEST.digest_id not in coordinator.registry


@on_loop
async def test_the_hour_of_an_old_version_goes_on_over_restarts_and_time_without_a_coordinator_does_not_count(
    tmp_path: Path,
) -> None:
    clock, half_s = ManualClock(), CoordinatorOptions().session_ended_s / 2
    async with started(tmp_path, clock=clock) as coordinator:
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        await coordinator.named.create(EVERYBODY, pb.DatasetSpec(name="train", sources=["/x"]))
        await scanned(coordinator, "train", DIGEST)
        await coordinator.named.refresh(EVERYBODY, "train")
        assert (await scanned(coordinator, "train", OTHER)).old_versions == 1
        clock.advance(half_s)
    clock.advance(10 * half_s)  # nobody is there to be asked by who was given that version
    async with started(tmp_path, clock=clock) as coordinator:
        clock.advance(half_s - 1)
        beat(coordinator)
        assert (await until_done(coordinator, "train")).old_versions == 1
    clock.advance(10 * half_s)
    async with started(tmp_path, clock=clock) as coordinator:
        clock.advance(LONGEST_MEETING_S)
        beat(coordinator)
        assert (await until_done(coordinator, "train")).old_versions == 0
        assert DIGEST.digest_id not in coordinator.registry


@on_loop
async def test_of_an_old_version_in_the_log_of_an_older_coordinator_the_hour_begins_now(tmp_path: Path) -> None:
    clock, hour_s = ManualClock(), CoordinatorOptions().session_ended_s
    async with started(tmp_path, clock=clock) as coordinator:
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        life = lifecycle.made(of("train", OTHER), "1", "", False, 1)
        life.old_digest_ids.append(DIGEST.digest_id)
        coordinator.named_table.put(life)
        clock.advance(2 * hour_s)
        beat(coordinator)
        assert (await until_done(coordinator, "train")).old_versions == 1
        clock.advance(hour_s / 2)
    async with started(tmp_path, clock=clock) as coordinator:
        clock.advance(hour_s / 2 - 1)
        beat(coordinator)
        assert (await until_done(coordinator, "train")).old_versions == 1
        clock.advance(2.0)
        beat(coordinator)
        assert (await until_done(coordinator, "train")).old_versions == 0


@on_loop
async def test_a_job_between_two_epochs_keeps_its_data_set_from_being_deleted(tmp_path: Path) -> None:
    clock, hour_s = ManualClock(), CoordinatorOptions().session_ended_s
    async with started(tmp_path, clock=clock) as coordinator:
        named, sessions = coordinator.named, coordinator.sessions
        await named.create(EVERYBODY, of("train"))
        await until_done(coordinator, "train")
        for job in ("run", ""):  # of no job, as tools read: it has no next epoch
            assert await read_first(coordinator, f"reader of {job}", job=job) == LeaseState.LEASED
        with pytest.raises(errors.InUseError, match="2 readers read train: --force to delete it all the same"):
            await named.delete(EVERYBODY, "train", force=False)
        sessions.node_lost("n")  # the epoch is over
        clock.advance(240.0)
        beat(coordinator)
        said = r"job run \(read it 240 s ago\) may be between two epochs of "
        with pytest.raises(errors.InUseError, match=f"name: {said}train: --force to delete it all the same"):
            await named.delete(EVERYBODY, "train", force=False)
        with pytest.raises(errors.InUseError, match=f"digest_id: {said}data set 'test' .*: --force ends them"):
            await coordinator.catalogue.delete(EVERYBODY, DIGEST.digest_id, force=False)
        await named.evict(EVERYBODY, "train", force=False)  # its next epoch reads the source
        clock.advance(hour_s)
        beat(coordinator)
        sessions.expire()
        assert (await named.delete(EVERYBODY, "train", force=False)).state == pb.NamedDataset.STATE_DELETING


@on_loop
async def test_an_epoch_that_is_over_between_two_looks_has_been_read(tmp_path: Path) -> None:
    """`dataset_lru` evicts what was read longest ago."""
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        for name, digest in (("train", DIGEST), ("other", OTHER)):
            await coordinator.catalogue.register("", b"", None, parts(digest))
            await coordinator.named.create(EVERYBODY, of(name, digest))
            clock.advance(60.0)
            beat(coordinator)
            assert (await until_done(coordinator, name)).used_s == 0
        assert await read_first(coordinator, "reader", job="run") == LeaseState.LEASED
        coordinator.sessions.node_lost("n")
        assert (await until_done(coordinator, "train")).used_s > 0
        assert coordinator.named.find(EVERYBODY, "other").used_s == 0
    async with started(tmp_path, clock=clock) as coordinator:
        clock.advance(LONGEST_MEETING_S)
        beat(coordinator)
        await coordinator.named.create(EVERYBODY, of("later"))
        assert (await until_done(coordinator, "later")).used_s == 0, "what the log says of it is no reading"


@on_loop
async def test_when_a_job_has_read_before_a_restart_nobody_pretends_to_know(tmp_path: Path) -> None:
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        await coordinator.named.create(EVERYBODY, of("train"))
        await until_done(coordinator, "train")
        assert await read_first(coordinator, "reader", job="run") == LeaseState.LEASED
        coordinator.sessions.node_lost("n")
        coordinator.sessions.restored()  # the log has been read again
        clock.advance(17.0)
        beat(coordinator)
        said = r"job run \(read it before the coordinator was started 17 s ago\) may be between two epochs of train"
        with pytest.raises(errors.InUseError, match=said):
            await coordinator.named.delete(EVERYBODY, "train", force=False)


@on_loop
async def test_a_mount_keeps_its_version_and_its_data_set_from_being_deleted(tmp_path: Path) -> None:
    """It has no session: its node tells of it."""
    clock, hour_s = ManualClock(), CoordinatorOptions().session_ended_s
    shows = [MountReport(digest_id=DIGEST.digest_id, mounts=2)]
    async with started(tmp_path, clock=clock) as coordinator:
        named = coordinator.named
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        await named.create(EVERYBODY, pb.DatasetSpec(name="train", sources=["/x"]))
        await scanned(coordinator, "train", DIGEST)
        beat(coordinator, mounts=shows)
        with pytest.raises(errors.InUseError, match=r"2 mounts, or trainers .*, read train: --force to delete"):
            await named.delete(EVERYBODY, "train", force=False)
        with pytest.raises(errors.InUseError, match=r"digest_id: 2 mounts, or .*, read data set .*: --force ends them"):
            await coordinator.catalogue.delete(EVERYBODY, DIGEST.digest_id, force=False)
        await named.refresh(EVERYBODY, "train")
        await scanned(coordinator, "train", OTHER)
        clock.advance(2 * hour_s)
        beat(coordinator, mounts=shows)
        told = await until_done(coordinator, "train")
        assert (told.old_versions, told.used_s) == (1, 0), "nobody reads it, yet it is mounted"
        beat(coordinator, mounts=[MountReport(digest_id=DIGEST.digest_id, mounts=1, idle_ms=500)])
        assert (await until_done(coordinator, "train")).used_s > 0
        beat(coordinator)  # its node was started again: the mount is about to connect
        assert (await until_done(coordinator, "train")).old_versions == 1
        clock.advance(KEPT_S)
        beat(coordinator)
        assert (await until_done(coordinator, "train")).old_versions == 0
        assert DIGEST.digest_id not in coordinator.registry
        beat(coordinator, mounts=[MountReport(digest_id=OTHER.digest_id, mounts=1)])
        await coordinator.leave("n", "1")
        with pytest.raises(errors.InUseError, match="1 mount, or"):  # it waits for its node, and shows it all the time
            await named.delete(EVERYBODY, "train", force=False)
        clock.advance(KEPT_S)
        assert (await named.delete(EVERYBODY, "train", force=False)).state == pb.NamedDataset.STATE_DELETING


@pytest.mark.slow
@on_loop
async def test_what_is_mounted_is_not_deleted_before_nodes_have_said_so_to_a_new_coordinator(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("named"))
        beat(coordinator, mounts=[MountReport(digest_id=DIGEST.digest_id, mounts=1)])
    again = Coordinator(tmp_path / "work", CoordinatorOptions())
    await again.start()
    try:
        deletes = [
            asyncio.create_task(again.named.delete(EVERYBODY, "named", force=False)),
            asyncio.create_task(again.catalogue.delete(EVERYBODY, DIGEST.digest_id, force=False)),
        ]
        await asyncio.wait(deletes, timeout=0.1)
        beat(again, mounts=[MountReport(digest_id=DIGEST.digest_id, mounts=1)])
        for delete in deletes:
            with pytest.raises(errors.InUseError, match="1 mount, or"):
                await delete
    finally:
        await again.stop()


@on_loop
async def test_an_old_version_gives_its_room_where_a_pin_would_go_without(tmp_path: Path) -> None:
    """Its own newest one's, and another data set's."""
    room_bytes = Placement.whole_bytes(DIGEST)
    for whose, asking in (("train", "train"), ("train", "other")):
        async with started(tmp_path / asking) as coordinator:
            named = coordinator.named
            await coordinator.catalogue.register("", b"", None, parts(OTHER))
            await named.create(EVERYBODY, pb.DatasetSpec(name=whose, sources=["/x"], pin=True))
            await scanned(coordinator, whose, DIGEST)
            assert await read_first(coordinator, "reader", DIGEST.digest_id) == LeaseState.LEASED
            beat(coordinator, quota_bytes=room_bytes)
            if asking == whose:
                await named.refresh(EVERYBODY, whose)
                await scanned(coordinator, whose, OTHER)
            else:
                third = numbered_digest(7, "third")
                await coordinator.catalogue.register("", b"", None, parts(third))
                await named.refresh(EVERYBODY, whose)
                await scanned(coordinator, whose, third)
                await named.create(EVERYBODY, of(asking, OTHER, pin=True))
                await until_done(coordinator, asking)
            assert "not pinned" in named.find(EVERYBODY, asking).reason, "the old one is read at this moment"
            assert DIGEST.digest_id in coordinator.caching.placement.pins
            coordinator.sessions.node_lost("n")  # the epoch is over
            for _ in range(3):  # at once: not when a pin that was refused is tried again by itself
                await until_done(coordinator, asking)
            assert OTHER.digest_id in coordinator.caching.placement.pins
            assert DIGEST.digest_id not in coordinator.caching.placement.pins
            assert named.find(EVERYBODY, asking).reason == ""
            assert named.find(EVERYBODY, whose).old_versions == 1


async def renewed(coordinator: Coordinator, name: str) -> tuple[Digest, Digest]:
    """A new data set that is pinned: the version that a job may come back to, and the newest one, both with room."""
    old, new = numbered_digest(100, f"{name}, old"), numbered_digest(100, f"{name}, new")
    for digest in (old, new):
        await coordinator.catalogue.register("", b"", None, parts(digest))
    await coordinator.named.create(EVERYBODY, pb.DatasetSpec(name=name, sources=["/x"], pin=True))
    await scanned(coordinator, name, old)
    await coordinator.named.refresh(EVERYBODY, name)
    await scanned(coordinator, name, new)
    [warming] = coordinator.named.tasks
    assert await coordinator.named.report(pb.ReportTaskRequest(node_id="n", task_id=warming.task_id, over=True))
    await until_done(coordinator, name)
    return old, new


@on_loop
async def test_no_more_old_versions_give_their_room_than_a_pin_takes(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        versions = [await renewed(coordinator, name) for name in ("one", "two", "three")]
        pins = coordinator.caching.placement.pins
        assert all(old.digest_id in pins and new.digest_id in pins for old, new in versions)
        beat(coordinator, quota_bytes=sum(Placement.whole_bytes(one) for both in versions for one in both))
        small = numbered_digest(5, "small")
        await coordinator.catalogue.register("", b"", None, parts(small))
        await coordinator.named.create(EVERYBODY, of("small", small, pin=True))
        async with asyncio.timeout(20):  # by the coordinator's own looks, one after another
            while not (life := coordinator.named_table.get("small")) or not life.pinned:
                await asyncio.sleep(0.05)
        assert coordinator.named.find(EVERYBODY, "small").reason == ""
        pins = coordinator.caching.placement.pins
        assert sum(old.digest_id in pins for old, _ in versions) == 2


@pytest.mark.parametrize("wanted", [False, True])
@on_loop
async def test_a_pin_that_is_wanted_no_more_or_was_set_takes_no_old_versions_room(tmp_path: Path, wanted: bool) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        beat(coordinator, quota_bytes=Placement.whole_bytes(DIGEST))
        for spec in (of("first", pin=True), of("refused", OTHER, pin=True)):
            await named.create(EVERYBODY, spec)
            await until_done(coordinator, spec.name)
        assert "not pinned" in named.find(EVERYBODY, "refused").reason
        beat(coordinator)
        assert (await named.pin(EVERYBODY, "refused", wanted)).reason == ""
        assert (OTHER.digest_id in coordinator.caching.placement.pins) == wanted
        old, _ = await renewed(coordinator, "train")
        assert named.find(EVERYBODY, "refused").reason == ""
        assert old.digest_id in coordinator.caching.placement.pins, "a job may come back to it"
