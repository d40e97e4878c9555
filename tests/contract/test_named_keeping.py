"""What looks after data sets that have names, on one loop: wishes that come in the middle of a look, one that is broken
beside others, more than a reply holds."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, read_first, started
from tests.support.digests import numbered_digest
from tests.support.named_here import OTHER, of, scanning, unclaimed, until_done
from tests.support.steps import steps
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.digests.digest import Digest
from tfquiver.grpc_plumbing.rpc import MAX_MESSAGE_BYTES
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity, Role
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle, named_keeping, named_requests, specs
from tfquiver.service.coordinator.named_dataset_lifecycle import steps as steps_of
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import DELETING
from tfquiver.service.coordinator.named_dataset_lifecycle.steps import Facts, Step
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_hashes


@on_loop
async def test_what_is_asked_for_in_the_middle_of_a_look_is_not_undone_by_it(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        named = coordinator.named
        await named.create(EVERYBODY, of("first", OTHER))
        await named.create(EVERYBODY, of("read"))
        await until_done(coordinator, "first")
        await read_first(coordinator, "r")
        pinned = named._table.get("first")
        assert pinned is not None
        asked = type(pinned)()
        asked.CopyFrom(pinned)
        asked.spec.pin = True
        named._table.put(asked)  # the look waits for the room of this one
        looking = asyncio.create_task(named.look())
        await asyncio.sleep(0)
        await named.delete(EVERYBODY, "read", force=True)
        await looking
        life = named._table.get("read")
        assert life is not None and life.phase == DELETING, "nodes have not deleted it yet"


@pytest.mark.slow
@on_loop
async def test_a_data_set_that_is_broken_is_nothing_to_the_others(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        await coordinator.named.create(EVERYBODY, of("broken", OTHER))
        await coordinator.named.create(EVERYBODY, of("whole"))
    [path] = (tmp_path / "work" / "digests").glob(f"{OTHER.digest_id.hex()}*")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    again = Coordinator(tmp_path / "work", CoordinatorOptions())
    await again.start()
    try:
        beat(again)
        for name in ("broken", "whole"):
            life = again.named_table.get(name)
            assert life is not None
            asked = type(life)()
            asked.CopyFrom(life)
            asked.spec.pin = True
            again.named_table.put(asked)
        await until_done(again, "whole")
        pinned = again.named_table.get("whole")
        assert pinned is not None and pinned.pinned
    finally:
        await again.stop()


@on_loop
async def test_what_was_scanned_and_removed_since_is_scanned_again(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        task = await scanning(coordinator)
        over = pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True, digest_id=OTHER.digest_id)
        assert await named.report(over), "of a data set that had the same digest, and was deleted before this came"
        await named.look()
        assert not named.tasks, "the node forgets that it has done it"
        async with asyncio.timeout(20):
            while not named.tasks:
                await asyncio.sleep(0.05)
        over.digest_id = DIGEST.digest_id
        assert await named.report(over)
        assert (await until_done(coordinator, "train")).version == 1


@on_loop
async def test_what_is_being_deleted_is_neither_made_nor_changed(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await named.create(EVERYBODY, of("train"))
        await until_done(coordinator, "train")
        await named.delete(EVERYBODY, "train", force=False)
        for again in (
            named.create(EVERYBODY, of("train")),
            named.prefetch(EVERYBODY, "train"),
            named.pin(EVERYBODY, "train", True),
            named.evict(EVERYBODY, "train", force=True),
            named.refresh(EVERYBODY, "train"),
        ):
            with pytest.raises(errors.InUseError, match="train is being deleted"):
                await again
        assert (await named.delete(EVERYBODY, "train", force=True)).state == pb.NamedDataset.STATE_DELETING
        await named.look()
        [task] = named.tasks
        assert task.evict.abandoned
        assert await named.report(pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True))
        await named.look()
        assert not await named.listed(EVERYBODY)


@on_loop
async def test_what_was_cut_as_another_format_is_no_version(tmp_path: Path) -> None:
    """By a node that is older, and knows of TFRecords only."""
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        spec = pb.DatasetSpec(name="images", sources=["/x/"], format=types_pb2.DATASET_FORMAT_BYTES)
        await named.create(EVERYBODY, spec)
        await until_done(coordinator, "images")
        [task] = named.tasks
        over = pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True, digest_id=DIGEST.digest_id)
        assert await named.report(over)
        failed = await until_done(coordinator, "images")
        assert (failed.state, failed.version) == (pb.NamedDataset.STATE_FAILED, 0)
        assert "another format" in failed.reason
        of_digest = of("records")
        of_digest.format = types_pb2.DATASET_FORMAT_BYTES
        with pytest.raises(errors.InvalidArgumentError, match="format: it is not that of the digest"):
            await named.create(EVERYBODY, of_digest)


@on_loop
async def test_what_no_data_set_names_is_told_when_nothing_is_scanned(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        await coordinator.named.create(EVERYBODY, of("other", OTHER))
        await until_done(coordinator, "other")
        names = [DIGEST.hashes[0].tobytes(), OTHER.hashes[3].tobytes(), b"n" * 32, OTHER.hashes[0].tobytes()]
        assert await unclaimed(coordinator, of_hashes(names)) == bytes([0, 0, 1, 0])
        by = [await coordinator.claims.claimed(of_hashes(some)) for some in (names, names[1:2], names[2:3])]
        told = [set(one.digest_ids) for one in by if one]
        assert told == [{OTHER.digest_id}, {OTHER.digest_id}, set()], "by which: one has all, it was the last to come"
        assert await unclaimed(coordinator, of_hashes([])) == b""
        many = await asyncio.gather(*(unclaimed(coordinator, of_hashes(names[:n])) for n in range(5)))
        assert many == [bytes([0, 0, 1, 0])[:n] for n in range(5)], "they are answered together, each its own"
        gone = asyncio.create_task(unclaimed(coordinator, of_hashes(names)))
        await asyncio.sleep(0)
        gone.cancel()
        assert await unclaimed(coordinator, of_hashes(names[2:])) == bytes([1, 0]), "who has gone ends nothing"
        beat(coordinator, scans=1)
        assert await unclaimed(coordinator, of_hashes(names)) is None, "a node scans"
        beat(coordinator)
        await coordinator.named.create(EVERYBODY, pb.DatasetSpec(name="train", sources=["/x"]))
        assert await unclaimed(coordinator, of_hashes(names)) is None, "one that has a name is scanned"


@on_loop
async def test_what_a_scan_has_brought_while_digests_were_looked_at_is_not_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(tmp_path) as coordinator:
        digest, new = coordinator.registry.digest, numbered_digest(10, "new")

        async def slowly(digest_id: bytes) -> Digest:
            found = await digest(digest_id)
            if new.digest_id not in coordinator.registry:
                await coordinator.catalogue.register("", b"", None, parts(new))
            return found

        monkeypatch.setattr(coordinator.registry, "digest", slowly)
        assert await unclaimed(coordinator, of_hashes([new.hashes[3].tobytes(), b"n" * 32])) == bytes([0, 1])


@on_loop
async def test_what_no_data_set_names_cannot_be_told_while_digests_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(digest_id: bytes) -> Digest:
        await asyncio.sleep(0)
        raise errors.UnavailableError("digest: Input/output error")

    async with started(tmp_path) as coordinator:
        asked = of_hashes([b"n" * 32])
        with monkeypatch.context() as patch:
            patch.setattr(coordinator.registry, "digest", fails)
            first = asyncio.create_task(unclaimed(coordinator, asked))
            await asyncio.sleep(0.001)
            second = asyncio.create_task(unclaimed(coordinator, asked))
            for one in (first, second):
                with pytest.raises(errors.UnavailableError, match="Input/output error"):
                    await asyncio.wait_for(one, 10)
        assert await unclaimed(coordinator, asked) == bytes([1])


@pytest.mark.slow
@on_loop
async def test_orders_and_lists_of_the_longest_sources_fit_a_reply(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        sources = [f"/{number:03}{'x' * 2000}" for number in range(specs.MAX_SOURCES_BYTES // 2010)]
        for number in range(60):
            spec = pb.DatasetSpec(name=f"n{number}", sources=sources, credentials="env:X")
            await coordinator.named.create(EVERYBODY, spec)
        await until_done(coordinator, "n0")
        assert coordinator.named.tasks
        assert (await coordinator.node_orders.newer(0, 0.0)).ByteSize() < MAX_MESSAGE_BYTES // 2
        listed = await coordinator.named.listed(EVERYBODY)
        assert len(listed) == 60 and pb.ListNamedDatasetsReply(datasets=listed).ByteSize() < MAX_MESSAGE_BYTES
        with pytest.raises(errors.InvalidArgumentError, match=r"sources: .* bytes in all"):
            await coordinator.named.create(EVERYBODY, pb.DatasetSpec(name="x", sources=[*sources, *sources]))


@on_loop
async def test_what_one_of_two_names_asked_for_goes_with_it(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named, rule = coordinator.named, types_pb2.PlacementRule(replicas=1)
        placed = of("placed", pin=True)
        placed.placement.CopyFrom(rule)
        await named.create(EVERYBODY, placed)
        await named.create(EVERYBODY, of("plain"))
        assert (await until_done(coordinator, "placed")).spec.pin
        assert coordinator.caching.placement.pins and list(coordinator.caching.placed.rules)
        await named.delete(EVERYBODY, "placed", force=False)
        await named.look()
        [task] = named.tasks
        await named.report(pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True))
        await named.look()
        assert [one.spec.name for one in await named.listed(EVERYBODY)] == ["plain"]
        assert not coordinator.caching.placement.pins, "nobody asks for that room any more"
        assert not list(coordinator.caching.placed.rules)


@on_loop
async def test_no_job_takes_all_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_requests, "MAX_OF_JOB", 2)
    async with started(tmp_path) as coordinator:
        job = Identity(Role.JOB, "eve")
        for number in range(2):
            await coordinator.named.create(job, of(f"n{number}"))
        with pytest.raises(errors.ResourceExhaustedError, match="has given 2 names already"):
            await coordinator.named.create(job, of("n2"))
        await coordinator.named.create(job, of("n1"))
        await coordinator.named.create(EVERYBODY, of("n2"))


@on_loop
async def test_what_a_node_was_to_read_that_is_lost_others_read(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        beat(coordinator, "m")
        await named.create(EVERYBODY, of("train"))
        await named.prefetch(EVERYBODY, "train")
        await until_done(coordinator, "train")
        [first] = named.tasks
        await named.report(pb.ReportTaskRequest(node_id="n", task_id=first.task_id, over=True))
        await coordinator.leave("m", "1")
        await named.look()
        [again] = named.tasks
        assert again.HasField("warm") and again.task_id != first.task_id
        await named.report(pb.ReportTaskRequest(node_id="n", task_id=again.task_id, over=True))
        assert (await until_done(coordinator, "train")).state == pb.NamedDataset.STATE_READY


@pytest.mark.slow
@pytest.mark.long
@on_loop
async def test_many_data_sets_that_are_kept_alike_fit_the_orders_of_a_thousand_nodes(tmp_path: Path) -> None:
    async with started(tmp_path, clock=ManualClock()) as coordinator:  # none beats again
        for number in range(1000):
            beat(coordinator, f"cache-node-{number:04}.rack-{number % 10}.example.com")
        async with asyncio.timeout(20):
            while not coordinator.caching.met:
                await asyncio.sleep(0.01)
        for number in range(400):
            await coordinator.catalogue.register("", b"", None, parts(made := numbered_digest(2 + number)))
            await coordinator.catalogue.set_placement(made.digest_id, types_pb2.PlacementRule(replicas=2))
        assert (await coordinator.node_orders.newer(0, 0.0)).ByteSize() < MAX_MESSAGE_BYTES // 2


@on_loop
async def test_pins_without_room_cost_a_look_the_same_however_many_they_are(tmp_path: Path) -> None:
    """Each data set asks whether there is one: of a thousand all were gone through a thousand times."""
    async with started(tmp_path) as coordinator:
        named, costs = coordinator.named, list[int]()
        for count in (2, 40):
            for number in range(count):
                life = lifecycle.made(of(f"n{number}", pin=True), f"{number:032}", "", False, 1)
                coordinator.named_table.put(life)
                named._pins.refused(life, 1, 0.0)
            costs.append(steps(named._pins.is_short))
        assert costs[0] == costs[1] > 10
        assert named._pins.is_short()
        for number in range(40):
            coordinator.named_table.gone(f"n{number}")
        assert not named._pins.is_short()


@on_loop
async def test_an_old_version_costs_a_look_the_same_however_many_are_pinned(tmp_path: Path) -> None:
    """Of a thousand each was asked for among the pins of all: a look took two seconds."""
    async with started(tmp_path) as coordinator:
        life, costs = lifecycle.made(of("set", pin=True), "life", "", False, 1), list[int]()
        life.old_digest_ids.append(DIGEST.digest_id)
        setting = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_UNIFORM, allocation_bytes=1)
        for count in (2, 40):
            for number in range(count):
                coordinator.caching.placement.settings[bytes([number]) * 32] = setting
            coordinator.caching.placement.settings[DIGEST.digest_id] = setting
            assert coordinator.named._facts(life).pins == {DIGEST.digest_id}
            costs.append(steps(lambda: coordinator.named._facts(life)))
        assert costs[0] == costs[1]


@on_loop
async def test_a_look_goes_after_those_only_about_which_something_is_to_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of nine thousand was looked after every second."""
    looked_after, next_step = list[str](), steps_of.next_step
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("first"))
        await until_done(coordinator, "first")
        for number in range(300):
            coordinator.named_table.put(lifecycle.made(of(f"n{number}"), f"{number:032}", "", False, 1))
        busy = lifecycle.prefetch(lifecycle.made(of("busy"), "busy", "", False, 1))
        coordinator.named_table.put(busy)

        def counted(life: lifecycle.Life, facts: Facts) -> Step | None:
            looked_after.append(life.spec.name)
            return next_step(life, facts)

        monkeypatch.setattr(named_keeping, "next_step", counted)
        await coordinator.named.look()
        assert set(looked_after) == {"busy"}


@pytest.mark.slow
@on_loop
async def test_what_makes_room_is_chosen_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served meanwhile, however many data sets there are."""
    async with started(tmp_path) as coordinator:
        named, turns, over = coordinator.named, 0, asyncio.Event()
        await named.create(EVERYBODY, of("wanted"))
        await until_done(coordinator, "wanted")
        for number in range(3000):
            coordinator.named_table.put(lifecycle.made(of(f"n{number}", OTHER), f"{number:032}", "", False, 1))
        named._when_full = "manual"
        beat(coordinator, quota_bytes=4096)
        asked, may_go = Counter[int](), named._may_go

        def counted(other: lifecycle.Life) -> bool:
            asked[turns] += 1
            return may_go(other)

        async def others() -> None:
            nonlocal turns
            while not over.is_set():
                await asyncio.sleep(0)
                turns += 1

        monkeypatch.setattr(named, "_may_go", counted)
        serving = asyncio.ensure_future(others())
        with pytest.raises(errors.ResourceExhaustedError, match="nothing can be evicted"):
            await named.prefetch(EVERYBODY, "wanted")
        over.set()
        await serving
        assert asked.total() == 3000
        assert max(asked.values()) < 1500
