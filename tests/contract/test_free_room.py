"""How much room the disk has, asked by many at once and while the disk hangs."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tfquiver.service.node.disk import free_room

ASKERS, EACH = 20, 50


@on_loop
async def test_who_asks_while_another_is_answered_is_answered_too(tmp_path: Path) -> None:
    room = free_room.Room(tmp_path)

    async def ask() -> list[int | None]:
        return [await room.bytes() for _ in range(EACH)]

    async with asyncio.timeout(30):
        found = await asyncio.gather(*(ask() for _ in range(ASKERS)))
    assert all(size_bytes for one in found for size_bytes in one)


@on_loop
async def test_a_disk_that_hangs_has_the_room_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_room.Room, "_PATIENCE_S", 0.05)
    room, let_go, statvfs, looks = free_room.Room(tmp_path), threading.Event(), os.statvfs, 0
    before = await room.bytes()

    def hangs(path: Path) -> os.statvfs_result:
        nonlocal looks
        looks += 1
        assert let_go.wait(30)
        return statvfs(path)

    monkeypatch.setattr(free_room.os, "statvfs", hangs)
    try:
        assert [await room.bytes() for _ in range(3)] == [before] * 3
        assert looks == 1  # each may hold a thread for ever
    finally:
        let_go.set()
