"""How much room the disk has, asked by many at once, while the disk hangs, and while entries come and go."""

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
    room = free_room.Room(tmp_path, int)

    async def ask() -> list[int | None]:
        return [await room.bytes() for _ in range(EACH)]

    async with asyncio.timeout(30):
        found = await asyncio.gather(*(ask() for _ in range(ASKERS)))
    assert all(size_bytes for one in found for size_bytes in one)


@on_loop
async def test_a_disk_that_hangs_has_the_room_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_room.Room, "_PATIENCE_S", 0.05)
    room, let_go, statvfs, looks = free_room.Room(tmp_path, int), threading.Event(), os.statvfs, 0
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


@on_loop
async def test_what_entries_take_and_what_is_left_are_of_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the room of before a node that had just been emptied was as small as what it still had, until the next
    heartbeat but one."""
    used_bytes, free_bytes = 700, 300
    monkeypatch.setattr(free_room, "look", lambda directory: (free_bytes + 50, 50))
    room = free_room.Room(tmp_path, lambda: used_bytes)
    assert await room.bytes() == 300
    for now_bytes, left_bytes in ((0, 1000), (900, 100), (1001, 0)):
        used_bytes = now_bytes
        assert room.now() == left_bytes
    used_bytes, free_bytes = 990, -40
    await room.bytes()
    assert await room.bytes() == 0
    used_bytes = 900
    assert room.now() == 50, "others have had 40 of what entries leave to them: those come first"


@on_loop
async def test_what_goes_while_the_disk_is_asked_is_not_counted_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As used before and as free after: a node of 96 MiB told of a room of 109."""
    used_bytes, free_bytes = 700, 300

    def goes(directory: Path) -> tuple[int, int]:
        nonlocal used_bytes, free_bytes
        used_bytes, free_bytes = used_bytes - 500, free_bytes + 500
        return free_bytes, 0

    monkeypatch.setattr(free_room, "look", goes)
    assert await free_room.Room(tmp_path, lambda: used_bytes).bytes() == 800


def test_what_readers_hold_open_of_entries_that_are_gone_makes_no_node_smaller() -> None:
    """It was as much smaller, until they closed it: each eviction made another plan."""
    held = free_room.HeldOpen()
    assert held.found(0.0, 1000, 0) == 1000
    assert held.found(1.0, 700, 300) == 1000, "300 have gone, and are held open"
    assert held.found(2.0, 600, 300) == 900, "others have written 100, beside those 300"
    assert held.found(62.0, 900, 300) == 900, "they are closed"
    assert held.found(63.0, 850, 300) == 850, "what others write counts at once, where nothing has gone"
    assert held.found(130.0, 1500, 300) == 1500
    assert held.found(131.0, 1200, 800) == 1500
    assert held.found(189.0, 1200, 800) == 1500
    assert held.found(192.0, 1200, 800) == 1200, "who holds it for so long takes that room"
