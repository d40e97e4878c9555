"""What was emptied while a node was away goes when it is back, once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tfquiver import durable, errors
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.node.evicting_emptying_removing_leftovers import late_evictions
from tfquiver.service.node.evicting_emptying_removing_leftovers.late_evictions import LateEvictions

A, B = b"a" * 32, b"b" * 32


class Node:
    """`restarted` gives one that goes on in the same directory."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.gone = directory, list[bytes]()
        self.fails: errors.TfquiverError | None = None
        self.fails_of, self.waits_of = b"", b""
        self.began, self.goes_on = asyncio.Event(), asyncio.Event()
        self.late: LateEvictions | None = None

    async def restarted(self) -> LateEvictions:
        if self.late:
            await self.late.close()
        self.late = LateEvictions(self.directory, self.give_up)
        await self.late.start()
        return self.late

    async def told(self, *named: tuple[bytes, str]) -> list[bytes]:
        """What goes for that."""
        assert self.late
        self.gone.clear()
        self.late.told([pb.NamedDigest(digest_id=digest_id, evicted=task) for digest_id, task in named])
        await self.late.carry_out()
        return list(self.gone)

    async def give_up(self, digest_ids: Sequence[bytes]) -> None:
        if self.fails and (not self.fails_of or self.fails_of in digest_ids):
            raise self.fails
        if self.waits_of in digest_ids:
            self.began.set()
            await self.goes_on.wait()
        self.gone += digest_ids


@on_loop
async def test_once_for_each_eviction_and_not_what_was_carried_out(tmp_path: Path) -> None:
    node = Node(tmp_path)
    late = await node.restarted()
    assert await node.told((A, "x/1"), (B, "")) == [A]
    await late.done("y/4", [B])
    assert await node.told((A, "x/1"), (B, "y/4")) == []
    late = await node.restarted()
    assert await node.told((A, "x/1"), (B, "y/4")) == []
    assert await node.told((A, ""), (B, "y/4")) == [], "it was read since"
    assert await node.told((A, "x/7"), (B, "z/4")) == [A, B]
    await late.close()


@on_loop
async def test_what_another_name_keeps_stays(tmp_path: Path) -> None:
    node = Node(tmp_path)
    late = await node.restarted()
    assert await node.told((A, "x/1"), (A, "")) == []
    assert await node.told((A, "x/1")) == [], "the other name has gone: what it has had read since is the first one's"
    assert await node.told((A, "x/1"), (A, "y/2")) == [A]
    assert await node.told((A, "x/1")) == []
    await late.close()


@on_loop
async def test_a_disk_that_refuses_is_asked_again_and_what_was_removed_is_not(tmp_path: Path) -> None:
    node = Node(tmp_path)
    late = await node.restarted()
    node.fails = errors.ResourceExhaustedError("read-only")
    with pytest.raises(errors.ResourceExhaustedError):
        await node.told((A, "x/1"))
    node.fails = errors.NotFoundError("removed")
    assert await node.told((A, "x/1")) == []
    node.fails = None
    assert await node.told((A, "x/1")) == []
    await late.close()


@on_loop
async def test_notes_are_of_what_has_a_name_and_damaged_ones_are_begun_anew(tmp_path: Path) -> None:
    node = Node(tmp_path)
    late = await node.restarted()
    await node.told((A, "x/1"))
    await node.told((B, "y/1"))
    await late.close()
    assert (tmp_path / late_evictions.FILE).read_text() == f"{B.hex()} y/1\n"
    (tmp_path / late_evictions.FILE).write_bytes(b"\xff\x00 zz\n")
    await node.restarted()
    assert await node.told((B, "y/1")) == [B]
    assert node.late
    await node.late.close()


def named(*marks: tuple[bytes, str]) -> list[pb.NamedDigest]:
    return [pb.NamedDigest(digest_id=digest_id, evicted=task) for digest_id, task in marks]


@on_loop
async def test_what_is_wanted_while_others_are_emptied_stays(tmp_path: Path) -> None:
    """It was prefetched or pinned: what is read for it would go."""
    many = [bytes([number]) * 32 for number in range(60)]
    node = Node(tmp_path)
    late = await node.restarted()
    heard = list[set[bytes]]()
    late.on_due = lambda: heard.append(set(late.due))
    node.waits_of = many[0]
    late.told(named(*((one, "x/1") for one in many)))
    await node.began.wait()
    assert set(late.due) == set(many)
    late.wanted(named(*((one, "x/1") for one in many[:-1]), (many[-1], "")))
    waits = asyncio.create_task(late.let_go(many[0]))
    await late.let_go(many[-1])
    await asyncio.sleep(0)
    assert not waits.done(), "of the first something is being deleted"
    node.goes_on.set()
    await waits
    while late.due:
        await asyncio.sleep(0)
    assert sorted(node.gone) == many[:-1]
    assert heard[:2] == [set(many), set(many[:-1])] and not heard[-1], "nothing of them is taken over until then"
    await late.close()


@on_loop
async def test_one_that_cannot_go_keeps_no_other_and_what_is_done_is_noted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.restarted()
    node.fails, node.fails_of = errors.UnavailableError("the disk hangs"), A
    with pytest.raises(errors.UnavailableError):
        await node.told((A, "x/1"), (B, "y/1"))
    assert node.gone == [B]
    late = await node.restarted()
    node.fails = None
    assert await node.told((A, "x/1"), (B, "y/1")) == [A]
    await late.close()


@on_loop
async def test_an_evict_is_over_while_the_disk_takes_no_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, write = threading.Event(), durable.write

    def hangs(path: Path, lines: list[bytes]) -> None:
        answers.wait(20)
        write(path, lines)

    node = Node(tmp_path)
    late = await node.restarted()
    monkeypatch.setattr(durable, "write", hangs)
    async with asyncio.timeout(5):
        await late.done("x/1", [A])
    answers.set()
    await node.restarted()
    assert await node.told((A, "x/1")) == []


@on_loop
async def test_who_is_killed_before_all_have_emptied_it_empties_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others had put something there, which it was the only one to know of: that stayed."""
    monkeypatch.setattr(late_evictions, "_NOTE_EVERY_S", 0.01)
    node, killed = Node(tmp_path), Node(tmp_path)
    late = await node.restarted()
    late.emptied({A})
    await late.done("x/1", [A])
    await late.done("x/1", [B])
    while not (tmp_path / late_evictions.FILE).exists():
        await asyncio.sleep(0.01)
    again = await killed.restarted()
    assert await killed.told((A, "x/1"), (B, "x/1")) == [A]
    await again.close()
    (tmp_path / late_evictions.FILE).unlink()
    late.emptied(set())
    while not (tmp_path / late_evictions.FILE).exists():
        await asyncio.sleep(0.01)
    await late.close()
    again = await killed.restarted()
    assert await killed.told((A, "x/1"), (B, "x/1")) == []
    await again.close()


@on_loop
async def test_what_a_kill_left_half_written_goes(tmp_path: Path) -> None:
    left_over = tmp_path / f".{late_evictions.FILE}.0123456789abcdef.tmp"
    left_over.write_text("x")
    late = await Node(tmp_path).restarted()
    assert not left_over.exists()
    await late.close()


@on_loop
async def test_a_disk_that_hangs_takes_one_thread_and_what_it_writes_at_last_is_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write that was begun beside it held a thread of all that the node has, and an older one could end last."""
    answers, began, write = threading.Event(), list[int](), durable.write

    def first_hangs(path: Path, lines: Sequence[bytes]) -> None:
        began.append(1)
        if len(began) == 1:
            answers.wait(60)
        write(path, lines)

    monkeypatch.setattr(durable, "write", first_hangs)
    monkeypatch.setattr(late_evictions, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(late_evictions, "_NOTE_EVERY_S", 0.01)
    node = Node(tmp_path)
    late = await node.restarted()
    try:
        await late.done("x/1", [A])
        while not began:
            await asyncio.sleep(0)
        await late.done("y/1", [B])
        await asyncio.sleep(0.3)  # of some fifteen writes
        assert len(began) == 1
    finally:
        answers.set()
    monkeypatch.setattr(late_evictions, "_PATIENCE_S", 60.0)
    await late.close()
    assert (tmp_path / late_evictions.FILE).read_text().count("\n") == 2


@on_loop
async def test_what_many_names_have_is_emptied_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.restarted()
    marks = [(A, f"name-{number}/1") for number in range(20)]
    assert await node.told(*marks) == [A]
    assert await node.told(*marks) == []
