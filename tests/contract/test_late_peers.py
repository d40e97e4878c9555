"""A peer that is silent for longer than peers are: a replica or the store is asked, too, and its answer counts."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.rogue_peer import Answer, RoguePeer, raw_body
from tests.support.store_node import StoreNode, build, is_shard, write_files
from tfquiver import stores
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.materializing import derived_uris
from tfquiver.service.node.connections_between_nodes import peer_socket
from tfquiver.service.node.connections_between_nodes.peers import PeerClient
from tfquiver.service.node.counters.stats import Stats
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.other_nodes import OtherNodes
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.reach import ANYWHERE, STORE


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    return build(write_files(tmp_path / "data", files=1))


def right(digest: Digest) -> Answer:
    def answer(shard: int, _: bytes) -> tuple[object, bytes]:
        ref = digest.shard(shard)
        return raw_body(stores.for_uri(ref.file.uri).read(ref.file.uri, ref.offset, ref.length_bytes, "", 10.0))

    return answer  # type: ignore[return-value]


def peers_take(others: OtherNodes, seconds: float) -> None:
    for _ in range(64):
        others._hedges.came(seconds)


class Silent:
    """How a peer sends that stops in the middle of each body until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def __call__(self, sock: socket.socket, body: bytes) -> None:
        sock.sendall(body[:100])
        self.let_go.wait(30)
        sock.sendall(body[100:])


@on_loop
async def test_the_store_is_asked_before_a_silent_peer_is_given_up(tmp_path: Path, digest: Digest) -> None:
    silent = Silent()
    with RoguePeer(right(digest), send=silent) as rogue:
        async with StoreNode(tmp_path / "a", [digest], node_id="a", members=[rogue.member]) as a:
            peers_take(a.source._others, 0.01)
            began_s = time.monotonic()
            assert is_shard(await a.source.get(digest, 0, "rogue"), digest, 0)
            assert time.monotonic() - began_s < peer_socket.SILENCE_S / 2
            assert a.source.stats().misses == 1
            assert rogue.asked == [0]
            silent.let_go.set()


class Replicas:
    """All shards are at all of them."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def before_store(self, digest_id: bytes, hash: bytes) -> str:
        return self._names[0]

    def others(self, digest_id: bytes, hash: bytes, failed: str) -> list[str]:
        return [name for name in self._names if name != failed]

    def is_far(self, node_id: str) -> bool:
        return False


@on_loop
async def test_another_owner_is_asked_before_the_store(digest: Digest) -> None:
    silent = Silent()
    with (
        RoguePeer(right(digest), node_id="b", send=silent) as late,
        RoguePeer(right(digest), node_id="c") as replica,
    ):
        peers = PeerClient("a", lambda: [late.member, replica.member], "")
        others = OtherNodes("a", peers, Replicas("b", "c"), Stats())
        peers_take(others, 0.01)
        began_s = time.monotonic()
        found = await others.get(digest, digest.shard(3), "b", True, None)
        assert time.monotonic() - began_s < peer_socket.SILENCE_S / 2
        assert found is not None
        assert is_shard(found, digest, 3)  # type: ignore[arg-type]
        assert (late.asked, replica.asked) == ([3], [3])
        silent.let_go.set()
        await peers.close()


@pytest.mark.slow
@on_loop
async def test_what_had_to_be_computed_says_nothing_of_when_others_are_late(digest: Digest) -> None:
    with RoguePeer(right(digest), node_id="b") as peer:
        peers = PeerClient("a", lambda: [peer.member], "")
        others = OtherNodes("a", peers, None, Stats())
        ref = digest.shard(0)
        derived = of_function(ref)
        for asked in (*[derived] * 64, ref):
            found = await others.get(digest, asked, "b", True, None)
            assert found is not None
            assert is_shard(found, digest, 0)  # type: ignore[arg-type]
        assert others._hedges.late_after_s() is None  # of one is too little known
        await peers.close()


@on_loop
async def test_what_nobody_waits_for_any_more_is_not_asked_for(digest: Digest) -> None:
    silent = Silent()
    with RoguePeer(right(digest), send=silent) as rogue:
        peers = PeerClient("a", lambda: [rogue.member], "")
        held = [asyncio.create_task(peers.get("rogue", digest, digest.shard(index))) for index in range(2)]
        async with asyncio.timeout(10):
            while len(rogue.asked) < 2:
                await asyncio.sleep(0.01)
        given_up = asyncio.create_task(peers.get("rogue", digest, digest.shard(2)))
        last = asyncio.create_task(peers.get("rogue", digest, digest.shard(3)))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        silent.let_go.set()
        for index, task in zip((0, 1, 3), (*held, last), strict=True):
            assert is_shard(await task, digest, index)
        assert sorted(rogue.asked) == [0, 1, 3]
        await peers.close()


def of_function(ref: ShardRef) -> ShardRef:
    """The same bytes, as what a function is said to have made of `ref`."""
    uri = derived_uris.uri_of(b"r" * 32, ref.file.uri)
    return dataclasses.replace(ref, file=dataclasses.replace(ref.file, uri=uri))


@pytest.mark.parametrize(
    ("waiting", "wanted"),
    [
        ((ANYWHERE, 0), (STORE, 0)),
        *(((a, n), (b, n - 1)) for a in (STORE, ANYWHERE) for b in (STORE, ANYWHERE) for n in (1, 2)),
    ],
)
@on_loop
async def test_nodes_do_not_wait_for_one_another_in_a_circle(
    digest: Digest, waiting: tuple[int, int], wanted: tuple[int, int]
) -> None:
    """Of each: its reach, and how many functions it is made by. The peer, too, has all its threads at such peers."""
    silent = Silent()
    with RoguePeer(right(digest), send=silent) as rogue:
        peers = PeerClient("a", lambda: [rogue.member], "", threads=2, threads_store=2)

        def got(index: int, reach: int, functions: int) -> asyncio.Task[ReadyShard]:
            ref = digest.shard(index)
            for _ in range(functions):
                ref = of_function(ref)
            return asyncio.create_task(peers.get("rogue", digest, ref, reach=reach))

        gets = [got(index, *waiting) for index in range(2)]
        async with asyncio.timeout(10):
            while len(rogue.asked) < 2:
                await asyncio.sleep(0.01)
        gets.append(got(2, *wanted))
        try:
            async with asyncio.timeout(peer_socket.SILENCE_S / 2):
                while len(rogue.asked) < 3:
                    await asyncio.sleep(0.01)
        finally:
            silent.let_go.set()
            found = await asyncio.gather(*gets, return_exceptions=True)
            await peers.close()
        for index, ready in enumerate(found):
            assert is_shard(ready, digest, index)  # type: ignore[arg-type]
