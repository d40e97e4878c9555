"""What is planned is explained to who may know it, however many there are and whatever they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.aio import on_loop
from tests.support.digests import numbered_digest
from tests.support.planning import FIRST, FIRST_BYTES, SECOND_BYTES, UNIFORM, coordinating, parts_of, plans, reads
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explaining import MOST_JOBS


@on_loop
async def test_what_belongs_to_others_is_not_explained(tmp_path: Path) -> None:
    """Not by its name, which others may have given to theirs, nor by the digits of its id."""
    theirs = numbered_digest(300, "same")
    own = numbered_digest(301, "same")
    async with coordinating(tmp_path, a=4 * FIRST_BYTES) as coordinator:
        await reads(coordinator, "they/job", theirs)
        await plans(coordinator)
        planning = coordinator.replanning
        assert planning
        await coordinator.catalogue.register("same", b"", None, parts_of(own))

        async def asks(name: str) -> Any:
            return await planning.explain(name, {own.digest_id}.__contains__, lambda job: job.startswith("me/"))

        for name in ("same", f"same ({theirs.digest_id.hex()[:12]})", "they/job"):
            with pytest.raises(errors.NotFoundError):
                await asks(name)
        await reads(coordinator, "me/job", own)
        await plans(coordinator)
        assert (await asks("same")).name == f"same ({own.digest_id.hex()[:12]})"
        assert (await asks("me/job")).kind == "job"


@on_loop
async def test_of_very_many_data_sets_of_one_name_some_are_named(tmp_path: Path) -> None:
    """An error travels in a header, of which 8 KiB are let through."""
    name = "n" * 512
    async with coordinating(tmp_path, a=SECOND_BYTES) as coordinator:
        for shards in range(1, 41):
            one = numbered_digest(shards)
            await coordinator.catalogue.register(name, b"", None, parts_of(one))
            await coordinator.catalogue.set_cache(one.digest_id, types_pb2.CacheSetting(mode=UNIFORM))
        planned = await plans(coordinator)
        with pytest.raises(errors.InvalidArgumentError, match=r"40 data sets have that name: .*and 20 more$") as told:
            await planned.explain(name)
        assert len(str(told.value)) < 1000
        said = str(told.value).partition("one of ")[2].split(",")[0]
        assert (await planned.explain(said)).name == f"{name} ({said})", "as it is said, and a shell takes it"
        assert (await planned.explain(said[:8].upper())).name == f"{name} ({said})"
        with pytest.raises(errors.NotFoundError):
            await planned.explain(said[:5])


@on_loop
async def test_a_name_that_is_not_known_is_an_error_that_arrives_whatever_the_others_are_called(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=SECOND_BYTES) as coordinator:
        for shards in range(1, 31):
            one = numbered_digest(shards)
            await coordinator.catalogue.register(f"{shards} {'馬' * 150}", b"", None, parts_of(one))
            await coordinator.catalogue.set_cache(one.digest_id, types_pb2.CacheSetting(mode=UNIFORM))
        with pytest.raises(errors.NotFoundError, match=r"known are '.*馬.* more$") as told:
            await (await plans(coordinator)).explain("馬" * 150)
        assert len(quote(str(told.value))) < 8000, "so long it is on its way"


@on_loop
async def test_of_a_data_set_with_very_many_jobs_some_are_told_one_by_one(tmp_path: Path) -> None:
    """With their names of 500 bytes ten thousand were more than a message may be."""
    async with coordinating(tmp_path, a=4 * FIRST_BYTES) as coordinator:
        for number in range(MOST_JOBS + 7):
            await reads(coordinator, f"{number:03} {'x' * 400}", FIRST)
        planning = await plans(coordinator)
        told = await planning.explain(FIRST.name)
        assert len(told.probes) == MOST_JOBS and told.more_jobs == 7
        last = f"{MOST_JOBS + 6} {'x' * 400}"
        assert last not in told.probes
        assert (await planning.explain(last)).probes.keys() == {last}
