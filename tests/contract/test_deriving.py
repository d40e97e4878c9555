"""A build at the coordinator: rows claimed and reported, over restarts; the whole becomes a data set."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, read_first, started
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import derived_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity, Role
from tfquiver.service.coordinator.commit_log.log_file import LogFile
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.derived_datasets.deriving import UNREAD_S
from tfquiver.service.coordinator.sessions.lease import LeaseState

ROWS = DIGEST.num_shards
BLUE, GREEN = Identity(Role.JOB, "blue"), Identity(Role.JOB, "green")


async def opened(
    coordinator: Coordinator, who: Identity = EVERYBODY, uses: int = 0, use_id: str = ""
) -> pb.DerivedState:
    request = pb.OpenDerivedRequest(
        fingerprint=b"f" * 32, digest_id=DIGEST.digest_id, name="derived", uses_per_draw=uses, use_id=use_id
    )
    return await coordinator.deriving.open(who, coordinator.registry.find(DIGEST.digest_id), request)


async def claimed(
    coordinator: Coordinator, build_id: bytes, claimer: str, most: int, wait_ms: int = 0, who: Identity = EVERYBODY
) -> list[int]:
    request = pb.ClaimDerivedRequest(build_id=build_id, claimer=claimer, most=most, wait_ms=wait_ms)
    return list((await coordinator.deriving.claim(who, request)).claimed)


async def reported(
    coordinator: Coordinator, build_id: bytes, rows: Iterable[int], who: Identity = EVERYBODY, salt: str = ""
) -> pb.DerivedState:
    request = pb.ReportDerivedRequest(build_id=build_id, claimer="c")
    for row in rows:
        records = int(DIGEST.records[row])
        part = pb.DerivedShard(
            hash=hashlib.sha256(f"{salt}{row}".encode()).digest(), length_bytes=100 * records, records=records
        )
        request.rows.add(row=row, parts=[part])
    return await coordinator.deriving.report(who, request)


@on_loop
async def test_rows_that_were_reported_are_done_after_a_restart_and_claims_are_not(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        build_id = (await opened(coordinator)).build_id
        assert await claimed(coordinator, build_id, "a", 8) == list(range(8))
        state = await reported(coordinator, build_id, range(3))
        assert (state.done, state.rows, state.HasField("dataset")) == (3, ROWS, False)
        assert coordinator.claims.scanning, "what nodes have of it is somebody's"
    async with started(tmp_path) as coordinator:
        assert await claimed(coordinator, build_id, "b", 4) == [3, 4, 5, 6]
        await reported(coordinator, build_id, range(3), salt="others")
        await coordinator._log.compact()
    async with started(tmp_path) as coordinator:
        state = await reported(coordinator, build_id, range(3, ROWS))
        assert state.dataset.records == DIGEST.num_records
        digest = await coordinator.registry.digest(state.dataset.digest_id)
        assert digest.hashes[0].tobytes() == hashlib.sha256(b"0").digest(), "the first report counts"
        assert digest.num_shards == ROWS
        assert (await opened(coordinator)).dataset == state.dataset
    async with started(tmp_path) as coordinator:
        assert (await opened(coordinator)).dataset == state.dataset


@on_loop
async def test_uses_that_are_counted_at_once_are_durable_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a thousand trainers that begin at once: the disk would be waited for by one after the other."""
    async with started(tmp_path) as coordinator:
        await opened(coordinator, uses=100, use_id="first")
        syncs, append = list[int](), LogFile.append
        monkeypatch.setattr(LogFile, "append", lambda self, data: (syncs.append(len(data)), append(self, data))[1])
        await asyncio.gather(*(opened(coordinator, uses=100, use_id=str(number)) for number in range(30)))
        assert len(syncs) <= 5
        (recipe,) = coordinator.deriving.recipes.builds()
        assert recipe.uses == 31
        assert coordinator._log._durable == coordinator._log.appended


@on_loop
async def test_a_derived_data_set_that_was_removed_is_made_again(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        build_id = (await opened(coordinator)).build_id
        made = (await reported(coordinator, build_id, range(ROWS))).dataset
        await coordinator.catalogue.delete(EVERYBODY, made.digest_id, force=False)
        state = await opened(coordinator)
        assert (state.done, state.HasField("dataset")) == (0, False)
        assert (await reported(coordinator, state.build_id, range(ROWS))).dataset == made
    async with started(tmp_path) as coordinator:
        assert (await opened(coordinator)).dataset == made


@on_loop
async def test_who_waits_for_a_row_gets_one_that_is_given_back_or_hears_of_the_end(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        build_id = (await opened(coordinator)).build_id
        assert len(await claimed(coordinator, build_id, "a", ROWS)) == ROWS
        waiting = asyncio.create_task(claimed(coordinator, build_id, "b", 1, 10_000))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        back = pb.ClaimDerivedRequest(build_id=build_id, claimer="a", given_back=[7])
        await coordinator.deriving.claim(EVERYBODY, back)
        assert await asyncio.wait_for(waiting, 5) == [7]
        request = pb.ClaimDerivedRequest(build_id=build_id, claimer="b", most=1, wait_ms=10_000)
        ending = asyncio.create_task(coordinator.deriving.claim(EVERYBODY, request))
        await reported(coordinator, build_id, range(ROWS))
        assert (await asyncio.wait_for(ending, 5)).HasField("dataset")


@on_loop
async def test_each_name_has_builds_and_data_sets_of_its_own(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        blue, green = (await opened(coordinator, BLUE)).build_id, (await opened(coordinator, GREEN)).build_id
        assert blue != green
        for call in (claimed(coordinator, blue, "x", 1, who=GREEN), reported(coordinator, blue, [0], GREEN)):
            with pytest.raises(errors.NotFoundError, match="build_id"):
                await call
        made = (await reported(coordinator, blue, range(ROWS), BLUE)).dataset
        assert list(coordinator.ownership.access(made.digest_id).owners) == ["blue"]
        assert not (await opened(coordinator, GREEN)).HasField("dataset")
        assert not coordinator.ownership.may_read(GREEN, made.digest_id)


def _derived(coordinator: Coordinator) -> int:
    return sum(one.name == "derived" for one in coordinator.registry.all())


@on_loop
@pytest.mark.parametrize("uses", [1, 2])
async def test_a_draw_is_used_so_often_and_goes_when_nobody_has_read_it_for_long(tmp_path: Path, uses: int) -> None:
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        draws = []
        for use in range(6):
            for _ in range(2):  # a call that is repeated is one use
                state = await opened(coordinator, uses=uses, use_id=f"use {use}")
                if not state.HasField("dataset"):
                    state = await reported(coordinator, state.build_id, range(ROWS), salt=str(state.draw))
            draws.append(state.draw)
            clock.advance(UNREAD_S)
        assert draws == [use // uses for use in range(6)]
        await opened(coordinator, uses=uses, use_id="use 5")
        assert _derived(coordinator) == 1


@on_loop
async def test_a_draw_stays_for_jobs_that_build_their_models_or_are_between_epochs(tmp_path: Path) -> None:
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        first = await opened(coordinator, uses=1, use_id="use 0")
        first = await reported(coordinator, first.build_id, range(ROWS), salt="0")
        second = await opened(coordinator, uses=1, use_id="use 1")
        await reported(coordinator, second.build_id, range(ROWS), salt="1")
        await opened(coordinator, uses=1, use_id="use 1")
        clock.advance(UNREAD_S / 2)
        assert await read_first(coordinator, "reader", first.dataset.digest_id) == LeaseState.LEASED
        coordinator.sessions.node_lost("n")  # its epoch is over
        clock.advance(UNREAD_S / 2 + 1)
        await opened(coordinator, uses=1, use_id="use 1")
        assert _derived(coordinator) == 2
        clock.advance(UNREAD_S)
        coordinator.sessions.expire()
        await opened(coordinator, uses=1, use_id="use 1")
        assert _derived(coordinator) == 1


@on_loop
async def test_the_hour_of_a_draw_before_goes_on_over_restarts(tmp_path: Path) -> None:
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        for use in range(2):
            state = await opened(coordinator, uses=1, use_id=f"use {use}")
            await reported(coordinator, state.build_id, range(ROWS), salt=str(use))
        clock.advance(UNREAD_S - 1)
        await opened(coordinator, uses=1, use_id="use 1")
        assert _derived(coordinator) == 2
    async with started(tmp_path, clock=clock) as coordinator:
        clock.advance(2)
        await opened(coordinator, uses=2, use_id="use 1")
        assert _derived(coordinator) == 1


@on_loop
async def test_what_a_row_cannot_be_changes_nothing(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        build_id = (await opened(coordinator)).build_id
        bad = pb.ReportDerivedRequest(build_id=build_id, claimer="c", rows=[pb.DerivedRow(row=ROWS)])
        with pytest.raises(errors.InvalidArgumentError, match=f"row {ROWS}"):
            await coordinator.deriving.report(EVERYBODY, bad)
        with pytest.raises(errors.NotFoundError, match="again"):
            await claimed(coordinator, b"?" * 32, "a", 1)
        assert (await opened(coordinator)).done == 0
