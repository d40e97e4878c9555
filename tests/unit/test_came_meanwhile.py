"""What came while all nodes emptied data sets: which of these are emptied once more."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence, Set
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.node.evicting_emptying_removing_leftovers import came_meanwhile, late_evictions
from tfquiver.service.node.evicting_emptying_removing_leftovers.came_meanwhile import CameMeanwhile
from tfquiver.service.node.evicting_emptying_removing_leftovers.late_evictions import LateEvictions
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_hashes

A, B, C = b"a" * 32, b"b" * 32, b"c" * 32


class Node:
    """Digest A names shards 0 to 9, B 10 to 19, C what both do."""

    def __init__(self) -> None:
        self.here, self.again = set[bytes](), list[set[bytes]]()
        self.unsettled = list[Set[bytes]]()
        self.fails: Exception | None = None
        self.coming, self.landed = set[bytes](), asyncio.Event()
        self.came = CameMeanwhile(
            self.here.__contains__, lambda: self.coming, self.still, self.named,
            lambda its: self.again.append(set(its)), self.unsettled.append,
        )  # fmt: skip

    async def still(self, hashes: Sequence[bytes]) -> None:
        while self.coming.intersection(hashes):
            await self.landed.wait()

    async def named(self, parts: Prefixes, by: Collection[bytes]) -> npt.NDArray[np.bool_]:
        if self.fails:
            raise self.fails
        its = [shard(number) for number in range(20) if C in by or (A if number < 10 else B) in by]
        return np.isin(parts, of_hashes(its))

    def put(self, number: int) -> None:
        self.here.add(shard(number))
        self.came.placed(shard(number))

    async def told(self, *digest_ids: bytes) -> list[set[bytes]]:
        """What is emptied once more when these orders have come."""
        self.again.clear()
        self.came.emptied(set(digest_ids))
        await asyncio.gather(*self.came._looking)
        return self.again


def shard(number: int) -> bytes:
    return number.to_bytes(32, "little")


@on_loop
async def test_what_something_came_of_that_stands() -> None:
    node = Node()
    node.put(1)
    assert await node.told(A, B) == []
    assert await node.told() == [], "it came before"
    await node.told(A, B)
    node.put(11)
    assert await node.told(B) == [], "nothing of that one"
    assert await node.told() == [{B}]
    await node.told(A)
    node.put(2)
    node.here.clear()  # it went with the rest
    assert await node.told() == []
    await node.told(C)
    node.put(3)
    node.put(30)
    assert await node.told(C) == []
    assert await node.told() == [{C}]
    await node.told(C)
    assert await node.told() == [], "that has been looked at"


@on_loop
async def test_what_was_put_and_lands_only_when_all_have_emptied_it() -> None:
    """The disk may take as long as it likes: who put it has gone on, and says that he is through."""
    node = Node()
    await node.told(A, B)
    node.coming.add(shard(1))
    node.came.emptied(set())
    for _ in range(3):
        await asyncio.sleep(0)
    assert node.again == []
    node.put(1)
    node.coming.clear()
    node.landed.set()
    await asyncio.gather(*node.came._looking)
    assert node.again == [{A}]


@on_loop
async def test_who_is_killed_while_he_looks_empties_it_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it was through was noted when all had emptied it, and what had come was looked at beside that."""
    monkeypatch.setattr(late_evictions, "_NOTE_EVERY_S", 0.0)
    gone, marked = list[bytes](), [pb.NamedDigest(digest_id=one, evicted="x/1") for one in (A, B)]

    async def give_up(digest_ids: Sequence[bytes]) -> None:
        gone.extend(digest_ids)

    async def next_process(*goes: bytes) -> None:
        gone.clear()
        late = LateEvictions(tmp_path, give_up)
        await late.start()
        late.told(marked)
        await late.carry_out()
        assert gone == list(goes)
        for task in late._tasks:
            task.cancel()  # it notes nothing

    node, late = Node(), LateEvictions(tmp_path, give_up)
    await late.start()
    came = CameMeanwhile(
        node.here.__contains__, lambda: node.coming, node.still, node.named, late.again, late.emptied
    )  # fmt: skip
    came.emptied({A}, {B})
    node.coming.add(shard(1))
    await late.done("x/1", [A, B])
    came.emptied(set())
    await until_noted(tmp_path, B)
    await next_process(A)
    node.coming.clear()
    node.landed.set()
    await until_noted(tmp_path, A, B)
    await next_process()
    node.landed.clear()
    node.coming.add(shard(1))
    came.emptied({A})
    marked[0].evicted = "x/2"
    await late.done("x/2", [A])
    came.emptied(set())
    await came.close()
    await late.close()
    await next_process(A)


async def until_noted(directory: Path, *digest_ids: bytes) -> None:
    """These are, and no others."""
    path, wanted = directory / late_evictions.FILE, {one.hex() for one in digest_ids}
    async with asyncio.timeout(10):
        while not path.exists() or {line[:64] for line in path.read_text().splitlines()} != wanted:
            await asyncio.sleep(0.01)


@on_loop
async def test_a_look_that_fails_leaves_nothing_unsettled() -> None:
    node = Node()
    await node.told(A, B)
    node.put(1)
    node.fails = RuntimeError("nobody has thought of it")
    assert await node.told(B) == [{A}]
    await asyncio.sleep(0)
    assert node.unsettled == [{A, B}, {A, B}, {B}]


@on_loop
async def test_where_it_cannot_be_said_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs reads of the store, no more."""
    node = Node()
    await node.told(A, B)
    node.put(1)
    node.fails = errors.UnavailableError("a digest that cannot be read")
    assert await node.told() == [{A, B}]
    node.fails = None
    monkeypatch.setattr(came_meanwhile, "MOST_NOTED", 10)
    await node.told(A, B)
    for number in range(100, 200):
        node.put(number)
    assert len(node.came._came) == 11
    assert await node.told() == [{A, B}]
    await node.came.close()
