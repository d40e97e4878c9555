"""Garbage that only a full collection finds goes all the same, and no full one comes unasked."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from tests.support.aio import on_loop
from tfquiver.service.common_to_servers import full_collections


class Ring:
    def __init__(self) -> None:
        self.me = self


def _old_ring() -> weakref.ref[Ring]:
    ring = Ring()
    gc.collect()  # it is of the oldest generation then, which others do not look at
    return weakref.ref(ring)


@on_loop
async def test_what_is_left_goes_after_a_while() -> None:
    with full_collections.now_and_then(pause_s=0.05):
        ring = _old_ring()
        gc.collect(1)
        assert ring() is not None
        async with asyncio.timeout(60):
            while ring() is not None:
                await asyncio.sleep(0.01)


@pytest.mark.slow
@on_loop
async def test_what_was_put_aside_is_looked_at_again() -> None:
    with full_collections.now_and_then(pause_s=0.05, whole_every=3):
        ring = Ring()
        gone = weakref.ref(ring)
        async with asyncio.timeout(60):
            while any(one is ring for one in gc.get_objects()):  # until it is put aside
                await asyncio.sleep(0.01)
            del ring
            gc.collect()
            assert gone() is not None
            while gone() is not None:
                await asyncio.sleep(0.01)
    assert not gc.get_freeze_count()


@pytest.mark.slow
@on_loop
async def test_none_comes_by_itself_and_afterwards_all_is_as_before() -> None:
    before, full = gc.get_threshold(), list[Any]()

    def count(phase: str, info: dict[str, Any]) -> None:
        full.extend([info] if info["generation"] == 2 else [])

    gc.callbacks.append(count)
    try:
        with full_collections.now_and_then():
            kept = [[number] for number in range(400_000)]
            assert not full
        assert gc.get_threshold() == before
        kept += [[number] for number in range(400_000)]
        assert full, "without it there would have been some"
    finally:
        gc.callbacks.remove(count)


@on_loop
async def test_every_second_of_the_young_looks_at_what_the_one_before_has_left() -> None:
    """Every eleventh had all to look at that came since the one before it, and held the loop up ten times as long."""
    kinds = list[int]()

    def count(phase: str, info: dict[str, Any]) -> None:
        kinds.extend([info["generation"]] if phase == "start" else [])

    with full_collections.now_and_then():
        gc.callbacks.append(count)
        try:
            kept = [list[int]() for _ in range(20 * gc.get_threshold()[0])]
        finally:
            gc.callbacks.remove(count)
    assert len(kept) and len(kinds) >= 10
    assert kinds.count(1) >= len(kinds) // 3 and not kinds.count(2)


@on_loop
async def test_what_comes_and_goes_with_calls_under_way_starts_none() -> None:
    """Where a collection of the young came with every 700 objects more, calls of 300 nodes started seven a second."""
    begun = list[str]()

    def count(phase: str, info: dict[str, Any]) -> None:
        begun.append(phase)

    with full_collections.now_and_then():
        gc.callbacks.append(count)
        try:
            for _ in range(10):
                under_way = [list[int]() for _ in range(3000)]
                under_way.clear()
        finally:
            gc.callbacks.remove(count)
    assert not begun
