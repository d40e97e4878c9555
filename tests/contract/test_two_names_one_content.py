"""What two names of one content share, as docs/guide/datasets.md says; and what holds the rest where it has no room."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, read_first, started
from tests.support.named_here import OTHER, of, until_done
from tfquiver import errors
from tfquiver.cli.dataset_commands import names
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MountReport
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_caching.placement import Placement
from tfquiver.service.coordinator.sessions.lease import LeaseState


async def nodes_are_done(coordinator: Coordinator, name: str) -> pb.NamedDataset | None:
    await until_done_or_gone(coordinator)
    for task in list(coordinator.named.tasks):
        await coordinator.named.report(pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True))
    await coordinator.named.look()
    return coordinator.named.find(EVERYBODY, name) if name in coordinator.named_table else None


async def until_done_or_gone(coordinator: Coordinator) -> None:
    await until_done(coordinator, next(iter(coordinator.named_table)).spec.name)


@on_loop
async def test_what_two_names_of_one_digest_share(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named, placement = coordinator.named, coordinator.caching.placement
        for name in ("one", "two"):
            await named.create(EVERYBODY, of(name, pin=True))
            await until_done(coordinator, name)
        whole_bytes = Placement.whole_bytes(DIGEST)
        assert placement.left_bytes(10 * whole_bytes) == 9 * whole_bytes, "the room of a pin is there once"
        every = await named.listed(EVERYBODY)
        its = {"digest_id": DIGEST.digest_id.hex(), "name": "as its first use called it", "size_bytes": 1}
        rows = names.joined(every, [its])
        assert [(one["name"], one["digest_id"] == its["digest_id"]) for one in rows[:2]] == [
            ("one", True),
            ("two", True),
        ]
        assert [one["name"] for one in rows[2:]] == [its["name"]]
        await named.pin(EVERYBODY, "one", False)
        await until_done(coordinator, "one")
        assert placement.is_pinned(DIGEST.digest_id), "the other one is pinned"
        await named.evict(EVERYBODY, "one", force=False)
        told = await nodes_are_done(coordinator, "one")
        assert told is not None and told.state == pb.NamedDataset.STATE_READY
        assert told.reason == "another data set is of the same content: it is kept for that"
        await named.delete(EVERYBODY, "one", force=False)
        assert await nodes_are_done(coordinator, "one") is None
        assert DIGEST.digest_id in coordinator.registry and placement.is_pinned(DIGEST.digest_id)
        assert [one.spec.name for one in await named.listed(EVERYBODY)] == ["two"]


@on_loop
async def test_a_name_goes_whoever_reads_what_stays_for_another_one(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        for name in ("one", "two", "three"):
            await named.create(EVERYBODY, of(name))
            await until_done(coordinator, name)
        assert await read_first(coordinator, "reader", job="run") == LeaseState.LEASED
        beat(coordinator, mounts=[MountReport(digest_id=DIGEST.digest_id, mounts=1)])
        for name in ("one", "two"):
            assert (await named.delete(EVERYBODY, name, force=False)).state == pb.NamedDataset.STATE_DELETING
        with pytest.raises(errors.InUseError, match="1 reader reads three: --force to delete it all the same"):
            await named.delete(EVERYBODY, "three", force=False)  # the others are about to go
        assert await nodes_are_done(coordinator, "one") is None
        assert [one.spec.name for one in await named.listed(EVERYBODY)] == ["three"]
        assert DIGEST.digest_id in coordinator.registry
        assert [len(session.readers) for session in coordinator.sessions] == [1]


@on_loop
async def test_a_refused_prefetch_says_what_holds_the_rest_once_for_content_of_two_names(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        for spec in (of("wanted", OTHER), of("held", pin=True), of("again"), of("idle", OTHER)):
            await named.create(EVERYBODY, spec)
            await until_done(coordinator, spec.name)

        async def kept(digest_id: bytes, node_ids: Collection[str]) -> int:
            return 7_000_000

        named._held.kept_bytes = kept  # type: ignore[method-assign]
        life = coordinator.named_table.get("wanted")
        assert life is not None
        [(name, size_bytes)] = await named._stays(EVERYBODY, life, {"n"})
        assert name in ("held", "again") and size_bytes == 7_000_000, "what is wanted holds nothing of itself"


@on_loop
async def test_words_of_the_command_line_are_no_names_for_new_data_sets(tmp_path: Path) -> None:
    """`tfquiver dataset set-cache none none` was one of them, and `auto`."""
    async with started(tmp_path) as coordinator:
        for name in ("none", "auto", "ALL", "lru"):
            with pytest.raises(errors.InvalidArgumentError, match=f"name: {name} is a word of the command line"):
                await coordinator.named.create(EVERYBODY, of(name))
        await coordinator.named.create(EVERYBODY, of("none-of-these"))
