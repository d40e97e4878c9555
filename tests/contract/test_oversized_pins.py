"""Who gives a data set more than all of it takes has it whole, and leaves the rest to others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, SECOND, SECOND_BYTES, cached, coordinating, plans, reads
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.sizes_durations_amounts.amounts import of_bytes


@on_loop
async def test_what_is_too_much_is_there_for_others(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=100 * FIRST_BYTES) as coordinator:
        for digest in (FIRST, SECOND):
            await reads(coordinator, f"job {digest.name}", digest)
        allocate = coordinator.catalogue.allocate_cache
        first = await allocate(FIRST.digest_id, 99 * FIRST_BYTES)
        assert (first.mode, first.allocation_bytes) == (types_pb2.CACHE_MODE_UNIFORM, FIRST_BYTES)
        second = await allocate(SECOND.digest_id, SECOND_BYTES - 1)
        assert (second.mode, second.allocation_bytes) == (types_pb2.CACHE_MODE_COOPERATIVE, SECOND_BYTES - 1)
        assert coordinator.caching._share == 1.0


@on_loop
async def test_a_policy_s_chunks_are_no_fewer_for_it(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES + SECOND_BYTES // 2) as coordinator:
        await reads(coordinator, "job", SECOND)
        await reads(coordinator, "another", FIRST)
        await coordinator.catalogue.allocate_cache(FIRST.digest_id, FIRST_BYTES + SECOND_BYTES // 2)
        await plans(coordinator)
        assert cached(coordinator, SECOND).mode == types_pb2.CACHE_MODE_COOPERATIVE
        assert coordinator.caching._share == 1.0


@pytest.mark.parametrize("mode", [types_pb2.CACHE_MODE_COOPERATIVE, types_pb2.CACHE_MODE_LRU])
@pytest.mark.parametrize("asked_bytes", [0, 90 * FIRST_BYTES])
@on_loop
async def test_by_chunks_and_lru_nobody_takes_more_than_all_of_it(tmp_path: Path, mode: int, asked_bytes: int) -> None:
    async with coordinating(tmp_path, a=100 * FIRST_BYTES) as coordinator:
        for digest in (FIRST, SECOND):
            await reads(coordinator, f"job {digest.name}", digest)
        set_cache = coordinator.catalogue.set_cache
        setting = types_pb2.CacheSetting(mode=mode, allocation_bytes=asked_bytes)  # type: ignore[arg-type]
        assert (await set_cache(FIRST.digest_id, setting)).allocation_bytes == FIRST_BYTES
        assert (await set_cache(SECOND.digest_id, setting)).allocation_bytes == SECOND_BYTES
        setting.allocation_bytes = 101 * FIRST_BYTES
        left = 100 * FIRST_BYTES - SECOND_BYTES
        with pytest.raises(
            errors.ResourceExhaustedError, match=f"are more than the {of_bytes(left)} that are left: the"
        ):
            await set_cache(FIRST.digest_id, setting)
