"""What is told of data sets that have names, and to whom: why one waits, why something stays, and nothing of what a job
may not see. On one loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, started
from tests.support.named_here import OTHER, of, until_done
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity, Role
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.grpc_calls.about_datasets.place_calls import PlaceCalls
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.options import CoordinatorOptions


@on_loop
async def test_what_another_job_reads_is_not_told_by_its_name(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        request = coordinator_pb2.OpenReaderRequest(reader_id="r", node_id="n", incarnation="1", job="secret-run")
        request.digest_id = DIGEST.digest_id
        await coordinator.reading.open_reader(request)
        asked = coordinator_pb2.SuggestPlacementRequest(job="secret-run")
        calls = PlaceCalls(coordinator)
        assert (await calls.SuggestPlacement(asked, None)).scores
        token = rpc._CALLER.set(Identity(Role.JOB, "eve"))
        try:
            with pytest.raises(errors.NotFoundError, match="no job 'secret-run' reads anything"):
                calls._read_by("secret-run")
        finally:
            rpc._CALLER.reset(token)


@on_loop
async def test_who_only_reads_a_data_set_is_not_told_where_its_secret_lies(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        spec = of("train")
        spec.credentials = "file:/secrets/train.json"
        assert (await coordinator.named.create(EVERYBODY, spec)).spec.credentials
        await coordinator.catalogue.share(DIGEST.digest_id, ["bob"], everybody=False)
        for who, told in ((Identity(Role.JOB, "bob"), ""), (EVERYBODY, spec.credentials)):
            [listed] = await coordinator.named.listed(who)
            assert (listed.spec.credentials, coordinator.named.find(who, "train").spec.credentials) == (told, told)


@on_loop
async def test_what_a_node_says_is_in_the_way_is_told_in_a_line(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await named.create(EVERYBODY, of("train"))
        await until_done(coordinator, "train")
        await named.prefetch(EVERYBODY, "train")
        await named.look()
        [task] = named.tasks
        said = pb.ReportTaskRequest(node_id="n", task_id=task.task_id, trouble="\x1b[2J\n" + "x" * (9 << 20))
        assert await named.report(said)
        [shown] = await named.listed(EVERYBODY)
        assert shown.reason.startswith("\\x1b[2J\\nxxx")
        assert len(shown.reason) < 2 * lifecycle.MAX_TROUBLE


@on_loop
async def test_a_prefetch_that_waits_for_room_says_so_and_blames_no_node(tmp_path: Path) -> None:
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        named = coordinator.named
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        await named.create(EVERYBODY, of("wanted"))
        await named.create(EVERYBODY, of("goes", OTHER))
        await until_done(coordinator, "goes")
        await named.evict(EVERYBODY, "goes", force=False)
        await named.prefetch(EVERYBODY, "wanted")
        for _ in range(2):
            await named.look()
            clock.advance(8)
            beat(coordinator)
            told = named.find(EVERYBODY, "wanted")
            assert told.reason == "room is made first: a data set is being evicted"
        [task] = named.tasks
        assert await named.report(pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True))
        told = await until_done(coordinator, "wanted")
        assert [one.HasField("warm") for one in named.tasks] == [True]
        assert told.reason == ""
        clock.advance(8)
        assert "no answer from node n yet" in named.find(EVERYBODY, "wanted").reason


@on_loop
async def test_a_job_is_not_told_names_of_data_sets_that_it_may_not_see(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named, job, other = coordinator.named, Identity(Role.JOB, "team-a"), Identity(Role.JOB, "team-b")
        await coordinator.catalogue.register("", b"", None, parts(OTHER), other)
        await named.create(job, of("wanted"))
        await named.create(other, of("secret", OTHER))
        await until_done(coordinator, "secret")
        assert [one.spec.name for one in await named.listed(job)] == ["wanted"]
        await named.evict(other, "secret", force=False)
        await named.prefetch(job, "wanted")
        await named.look()
        told = [*await named.listed(job), named.find(job, "wanted"), await named.newer(job, "wanted", 0, 0.0)]
        assert {one.reason for one in told} == {"room is made first: a data set is being evicted"}


@on_loop
async def test_a_refusal_names_only_what_whoever_asks_may_see(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named, job, other = coordinator.named, Identity(Role.JOB, "team-a"), Identity(Role.JOB, "team-b")
        coordinator.ownership.acquire(job, DIGEST.digest_id)
        await coordinator.catalogue.register("", b"", None, parts(OTHER), other)
        await named.create(job, of("wanted"))
        await named.create(other, of("secret", OTHER))
        await until_done(coordinator, "secret")
        named._when_full = "manual"
        inventory = coordinator_pb2.Inventory(full=True, version=2, added=[row.tobytes() for row in OTHER.hashes])
        request = coordinator_pb2.HeartbeatRequest(incarnation="1", inventory=inventory)
        request.node.node_id, request.node.quota_bytes = "n", 4096
        coordinator.heartbeats.take(request)
        with pytest.raises(errors.ResourceExhaustedError, match=r"evict some of 1 that you may not see; even all of"):
            await named.prefetch(job, "wanted")
        with pytest.raises(errors.ResourceExhaustedError, match=r"evict some of secret \("):
            await named.prefetch(EVERYBODY, "wanted")

        changed = lifecycle.Life()
        changed.CopyFrom(named._table.get("secret") or changed)
        changed.old_digest_ids.append(DIGEST.digest_id)
        assert named._table.put(changed)
        refused = "it is a version of wanted and 1 that you may not see: delete"
        with pytest.raises(errors.InUseError, match=refused):
            named.check_not_named(job, DIGEST.digest_id)
        with pytest.raises(errors.InUseError, match="it is a version of secret, wanted: delete"):
            named.check_not_named(EVERYBODY, DIGEST.digest_id)


@on_loop
async def test_why_something_is_there_after_an_evict_is_said(tmp_path: Path) -> None:
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        named = coordinator.named
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        for spec in (of("train"), of("one", OTHER), of("secret", OTHER)):
            await named.create(EVERYBODY, spec)
        beat(coordinator, "lost")
        clock.advance(CoordinatorOptions().node_timeout_s)
        beat(coordinator)
        assert coordinator.membership.expire() == ["lost"]

        async def evicted(name: str) -> str:
            await until_done(coordinator, name)
            await named.evict(EVERYBODY, name, force=False)
            await named.look()
            [task] = named.tasks
            assert await named.report(pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True))
            told = await until_done(coordinator, name)
            assert told.state == pb.NamedDataset.STATE_READY
            return str(told.reason)

        assert await evicted("train") == "node lost is away: what it keeps of it goes when it comes back"
        assert await evicted("one") == "another data set is of the same content: it is kept for that"


@on_loop
async def test_a_node_that_asks_as_soon_as_the_coordinator_has_been_restarted_is_told_the_names(tmp_path: Path) -> None:
    """It was told that there are none, and would have read with no credentials until it was told the next time."""
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("train"))
    again = Coordinator(tmp_path / "work", CoordinatorOptions())
    await again.start()
    try:
        reply = await again.node_orders.newer(0, 0.0)
        assert [one.name for one in reply.named] == ["train"]
    finally:
        await again.stop()


@on_loop
async def test_who_watches_one_is_told_nothing_when_another_changes(tmp_path: Path) -> None:
    """Of ten thousand that were watched each change was told to all who did: as often as all of them changed."""
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await named.create(EVERYBODY, of("one"))
        await named.create(EVERYBODY, of("two"))
        await until_done(coordinator, "two")
        seen = {name: named.find(EVERYBODY, name).seen for name in ("one", "two")}
        one, two = (asyncio.create_task(named.newer(EVERYBODY, name, seen[name], 30.0)) for name in seen)
        await asyncio.sleep(0)
        await named.prefetch(EVERYBODY, "one")
        assert (await one).state == pb.NamedDataset.STATE_WARMING
        await until_done(coordinator, "one")
        one = asyncio.create_task(named.newer(EVERYBODY, "one", named.find(EVERYBODY, "one").seen, 30.0))
        await asyncio.sleep(0)
        [task] = named.tasks
        assert await named.report(pb.ReportTaskRequest(node_id="n", task_id=task.task_id, done_bytes=7, total_bytes=9))
        await named.look()
        assert (await one).done_bytes == 7
        assert not two.done()
        await named.delete(EVERYBODY, "two", force=True)
        assert (await two).state == pb.NamedDataset.STATE_DELETING
        two = asyncio.create_task(named.newer(EVERYBODY, "two", named.find(EVERYBODY, "two").seen, 30.0))
        await named.look()
        gone = next(task for task in named.tasks if task.HasField("evict"))
        assert await named.report(pb.ReportTaskRequest(node_id="n", task_id=gone.task_id, over=True))
        await named.look()
        with pytest.raises(errors.NotFoundError, match="no data set is called 'two'"):
            await two
