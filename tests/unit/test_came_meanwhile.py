"""What came while all nodes emptied data sets: which of these are emptied once more."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.hash_prefixes_and_sorted_numbers.prefixes import Prefixes, of_hashes
from tfquiver.service.node.removed_and_leftover_data import came_meanwhile
from tfquiver.service.node.removed_and_leftover_data.came_meanwhile import CameMeanwhile

A, B, C = b"a" * 32, b"b" * 32, b"c" * 32


class Node:
    """Digest A names shards 0 to 9, B 10 to 19, C what both do."""

    def __init__(self) -> None:
        self.here, self.again = set[bytes](), list[set[bytes]]()
        self.fails: errors.TfquiverError | None = None
        self.coming, self.landed = set[bytes](), asyncio.Event()
        self.came = CameMeanwhile(
            self.here.__contains__, lambda: self.coming, self.still, self.named,
            lambda its: self.again.append(set(its)),
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
