"""Which shards digests of this node name, whoever is cancelled, whatever is forgotten meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.support.aio import on_loop
from tests.support.digests import digest_of
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.service.node.digests_kept_here import named_prefixes, other_digests
from tfquiver.service.node.digests_kept_here.other_digests import OtherDigests
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_rows

FIRST, SECOND, THIRD = (digest_of([bytes([shard]) * 32 for shard in range(at, at + 3)]) for at in (1, 4, 7))


class Node:
    def __init__(self) -> None:
        self.all = {digest.digest_id: digest for digest in (FIRST, SECOND, THIRD)}
        self.here = set(self.all)
        self.fails: errors.TfquiverError | None = None  # when a digest is got that cannot be read here
        self.damaged = set[bytes]()
        self.reads = list[bytes]()
        self.reading, self.reads_of, self.may_read = asyncio.Event(), b"", asyncio.Event()
        self.others = OtherDigests(lambda: list(self.here), self.peek, self.get)

    async def peek(self, digest_ids: Sequence[bytes]) -> AsyncIterator[Sequence[Digest]]:
        for digest_id in digest_ids:
            self.reads.append(digest_id)
            if digest_id == self.reads_of:
                self.reading.set()
                await self.may_read.wait()
            yield [self.all[digest_id]] if digest_id not in self.damaged else []

    async def get(self, digest_id: bytes) -> Digest:
        if self.fails:
            raise self.fails
        return self.all[digest_id]

    async def named(self, *by: bytes) -> int:
        parts: Prefixes = np.sort(of_rows(np.concatenate([digest.hashes for digest in self.all.values()])))
        return int((await self.others.named(parts, by)).sum())


@on_loop
async def test_a_cancelled_asker_leaves_the_index_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    node, joining, goes_on = Node(), threading.Event(), threading.Event()
    joined = named_prefixes._joined

    def slowly(*runs: tuple[object, object]) -> object:
        made = joined(*runs)  # type: ignore[arg-type]
        if not joining.is_set():
            joining.set()
            goes_on.wait(10)
        return made

    monkeypatch.setattr(named_prefixes, "_joined", slowly)
    await node.named(FIRST.digest_id)
    asks = asyncio.create_task(node.named(SECOND.digest_id))
    await asyncio.to_thread(joining.wait, 10)
    asks.cancel()
    await asyncio.gather(asks, return_exceptions=True)
    asks = asyncio.create_task(node.named(THIRD.digest_id))
    await asyncio.wait([asks], timeout=0.2)  # as far as it comes: without the lock to its end
    goes_on.set()
    await asks
    assert [await node.named(one) for one in node.all] == [3, 3, 3]
    await node.others.close()


@on_loop
async def test_what_is_forgotten_while_another_is_read_counts() -> None:
    """`by` was made before: its file went because the directory of digests was full."""
    node = Node()
    node.here = {FIRST.digest_id}
    await node.named(FIRST.digest_id)
    node.reads_of = SECOND.digest_id
    asks = asyncio.create_task(node.named(FIRST.digest_id, SECOND.digest_id))
    await node.reading.wait()
    node.here.clear()
    node.others.start()
    while FIRST.digest_id in node.others._prefixes.digest_ids:
        await asyncio.sleep(0)
    node.may_read.set()
    assert await asks == 6
    await node.others.close()


@pytest.mark.parametrize("error", [errors.UnavailableError("away"), errors.PermissionError_("token")])
@on_loop
async def test_nothing_is_said_while_a_digest_cannot_be_read(error: errors.TfquiverError) -> None:
    node = Node()
    node.damaged, node.fails = {SECOND.digest_id}, error
    names_it = f"{SECOND.digest_id.hex()} .*{error}; until it is, .* see to its file at the coordinator"
    with pytest.raises(errors.UnavailableError, match=names_it):  # whoever reads it knows where to look
        await node.named(FIRST.digest_id, SECOND.digest_id)
    node.fails = None
    assert await node.named(FIRST.digest_id, SECOND.digest_id) == 6


@pytest.mark.parametrize("error", [errors.NotFoundError("removed"), errors.CorruptDigestError("its own, too")])
@on_loop
async def test_what_nobody_can_read_any_more_names_nothing(error: errors.TfquiverError) -> None:
    node = Node()
    node.damaged, node.fails = {SECOND.digest_id}, error
    assert await node.named(FIRST.digest_id, SECOND.digest_id) == 3


@on_loop
async def test_what_has_no_room_or_cannot_be_read_is_not_read_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until there is room."""
    monkeypatch.setattr(other_digests, "_LOOK_S", 0)
    monkeypatch.setattr(other_digests, "_UNREADABLE_LOOKS", 1 << 30)
    node, looks = Node(), 0
    node.damaged = {THIRD.digest_id}

    def here() -> list[bytes]:
        nonlocal looks
        looks += 1
        return list(node.here)

    async def looked() -> None:
        enough = looks + 10
        while looks < enough:
            await asyncio.sleep(0)

    node.others = OtherDigests(here, node.peek, node.get)
    node.others._prefixes = named_prefixes.NamedPrefixes(most=4)
    node.others.start()
    await looked()
    assert sorted(node.reads) == sorted(node.all)
    assert await node.named(FIRST.digest_id, SECOND.digest_id) == 6, "who asks reads it"
    node.reads.clear()
    (known,) = node.others._prefixes.digest_ids
    node.here.discard(known)
    await looked()
    assert node.reads == [one for one in (FIRST.digest_id, SECOND.digest_id) if one != known]
    await node.others.close()


class Turns(ThreadPoolExecutor):
    """Counts what is done in threads."""

    def __init__(self) -> None:
        super().__init__(2)
        self.count = 0

    def submit(self, *call: Any, **named: Any) -> Future[Any]:
        self.count += 1
        return super().submit(*call, **named)


@on_loop
async def test_digests_that_are_read_together_take_one_turn_of_a_thread() -> None:
    """Of ten thousand a turn for each was a third of what the first evict took."""
    digests = {one.digest_id: one for one in (digest_of([number.to_bytes(32, "little")]) for number in range(100))}
    turns, wanted = Turns(), list(digests.values())[::7]

    async def peek(digest_ids: Sequence[bytes]) -> AsyncIterator[Sequence[Digest]]:
        for at in range(0, len(digest_ids), 50):
            yield [digests[digest_id] for digest_id in digest_ids[at : at + 50]]

    async def get(digest_id: bytes) -> Digest:
        return digests[digest_id]

    asyncio.get_running_loop().set_default_executor(turns)
    others = OtherDigests(lambda: list(digests), peek, get)
    parts: Prefixes = np.sort(of_rows(np.concatenate([digest.hashes for digest in wanted])))
    assert (await others.named(parts, list(digests))).all()
    assert turns.count < 10
    assert (await others.named(parts, [one.digest_id for one in wanted[1:]])).sum() == len(wanted) - 1
    await others.close()
