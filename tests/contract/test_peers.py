"""Two or more storing nodes over real TCP."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import random
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from tests.support.aio import on_loop
from tests.support.store_node import Members, StoreNode, build, is_shard, two_nodes, write_files
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.listing import listing
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.disk import entry
from tfquiver.service.node.disk_quota_books_and_eviction.accounts import AccountTerms
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.shard_owners_chunks_hash_prefixes import rendezvous
from tfquiver.stores.local import LocalStore

POLICY = CutPolicy(4096, 16384, 65536)


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    return build(write_files(tmp_path / "data"))


def owners(digest: Digest, *nodes: StoreNode) -> list[str]:
    names = [node.node_id for node in nodes]
    return [names[i] for i in rendezvous.owners(digest.hashes, names)]


async def read_all(node: StoreNode, digest: Digest, owner: list[str]) -> None:
    ready = await asyncio.gather(*(node.source.get(digest, i, owner[i]) for i in range(digest.num_shards)))
    good = [is_shard(shard, digest, index) for index, shard in enumerate(ready)]
    assert all(good)


@on_loop
async def test_each_shard_leaves_the_store_once_whoever_reads_it(tmp_path: Path, digest: Digest) -> None:
    async with two_nodes(tmp_path, digest) as (a, b):
        owner = owners(digest, a, b)
        await asyncio.gather(*(read_all(node, digest, owner) for node in (a, b, a, b)))
        assert a.meter.store_bytes + b.meter.store_bytes == digest.size_bytes
        assert a.meter.store_requests + b.meter.store_requests == digest.num_shards
        assert len(a.disk) == owner.count("a") > 0
        assert len(b.disk) == owner.count("b") > 0
        assert a.source.stats().peer_hits > 0
        assert {header.codec for node in (a, b) for header in headers(node)} == {entry.RAW, entry.ZSTD}


@on_loop
async def test_what_its_owner_reads_from_the_store_to_answer_is_no_hit(tmp_path: Path, digest: Digest) -> None:
    """Where nothing is cached a reader finds nothing in the cache, wherever its shards belong."""
    async with two_nodes(tmp_path, digest) as (a, b):
        theirs = [index for index, name in enumerate(owners(digest, a, b)) if name == "b"]
        for there in (False, True):
            for index in theirs:
                ready = await a.source.get(digest, index, "b")
                assert (ready.source, ready.left_the_store) == ("peer", not there)
                assert is_shard(ready, digest, index)
            told = a.source.stats()
            assert (told.peer_hits, told.misses) == (len(theirs) * there, 0)
            assert b.source.stats().misses == len(theirs)
            for hash in digest.hashes:
                a.source._hot.drop(hash.tobytes())
                b.source._hot.drop(hash.tobytes())


def headers(node: StoreNode) -> list[entry.Header]:
    found = []
    for hash in node.disk.hashes():
        opened = node.disk.open_entry(hash)
        assert opened
        opened.close()
        found.append(opened.header)
    return found


@on_loop
async def test_a_scan_leaves_every_shard_at_its_owner(tmp_path: Path) -> None:
    files = listing.expand(str(write_files(tmp_path / "data")))
    async with two_nodes(tmp_path) as (a, b):
        told: list[tuple[int, int, str]] = []
        digest = await a.scan(files, POLICY, lambda *progress: told.append(progress))
        owner = owners(digest, a, b)
        for node in (a, b):
            assert set(node.disk.hashes()) == {
                digest.hashes[i].tobytes() for i, name in enumerate(owner) if name == node.node_id
            }
        assert told[-1][:2] == (
            digest.size_bytes + 12 * len(files),
            digest.num_records,
        )  # 12: the look at the first bytes
        before = a.meter.store_bytes
        a.digests[digest.digest_id] = b.digests[digest.digest_id] = digest
        for node in (a, b):
            await read_all(node, digest, owner)
        assert (a.meter.store_bytes, b.meter.store_bytes) == (before, 0)


@on_loop
async def test_a_peer_that_is_gone_costs_no_error_and_nothing_is_kept_of_its_shards(
    tmp_path: Path, digest: Digest
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"127.0.0.1:{gone.getsockname()[1]}"
    dead = types_pb2.NodeInfo(node_id="dead", data_address=address, quota_bytes=1)
    async with StoreNode(tmp_path / "a", [digest], node_id="a", members=[dead]) as a:
        await read_all(a, digest, ["dead"] * digest.num_shards)
        assert len(a.disk) == 0
        assert a.source.stats().misses == digest.num_shards


@on_loop
async def test_a_peer_that_accepts_and_never_answers_is_given_up(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfquiver.service.node.connections_between_nodes.peer_socket.SILENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        peer = types_pb2.NodeInfo(node_id="mute", data_address=address, quota_bytes=1)
        async with asyncio.timeout(5), StoreNode(tmp_path / "a", [digest], node_id="a", members=[peer]) as a:
            await read_all(a, digest, ["mute"] * digest.num_shards)


@on_loop
async def test_an_owner_that_is_slow_but_at_work_is_waited_for(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfquiver.service.node.connections_between_nodes.peer_socket.SILENCE_S", 0.5)
    monkeypatch.setattr("tfquiver.service.node.connections_between_nodes.data_connection.WORKING_S", 0.1)
    limit_bytes_per_s = digest.size_bytes / 1.5
    async with two_nodes(tmp_path, digest, of_b={"limit_bytes_per_s": limit_bytes_per_s}) as (a, b):
        await read_all(a, digest, ["b"] * digest.num_shards)
        assert (a.meter.store_requests, b.meter.store_requests) == (0, digest.num_shards)


@pytest.mark.slow
@on_loop
async def test_a_peer_that_was_restarted_elsewhere_is_found_again(tmp_path: Path, digest: Digest) -> None:
    members: Members = []
    async with StoreNode(tmp_path / "a", [digest], node_id="a", members=members, hot_bytes=0) as a:
        async with StoreNode(tmp_path / "b", [digest], node_id="b", members=members):
            await read_all(a, digest, ["b"] * digest.num_shards)
        members.pop()
        async with StoreNode(tmp_path / "b", [digest], node_id="b", members=members) as b:
            await read_all(a, digest, ["b"] * digest.num_shards)
            assert b.meter.store_requests == a.meter.store_requests == 0


@on_loop
async def test_a_damaged_copy_at_the_owner_is_healed_when_another_node_finds_it(tmp_path: Path, digest: Digest) -> None:
    async with two_nodes(tmp_path, digest, of_b={"mode": "raw"}) as (a, b):
        await read_all(b, digest, ["b"] * digest.num_shards)
        hash = digest.hashes[0].tobytes()
        path = next((tmp_path / "b" / "objects").rglob(hash.hex()))
        with path.open("r+b") as file:
            file.seek(4096)
            first = file.read(1)
            file.seek(4096)
            file.write(bytes([first[0] ^ 1]))
        assert is_shard(await a.source.get(digest, 0, "b"), digest, 0)
        assert a.source.stats().peer_mismatches == 1
        async with asyncio.timeout(5):
            while not b.disk.corrupt_entries:
                await asyncio.sleep(0)
        assert is_shard(await b.source.get(digest, 0, "b"), digest, 0)


@on_loop
async def test_a_put_under_a_wrong_hash_is_refused_and_the_connection_lives(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        lie = dataclasses.replace(verified(b"these bytes do not have that hash"), hash=bytes(32))
        for _ in range(2):
            with pytest.raises(errors.DataLossError, match="the bytes have hash"):
                await asyncio.to_thread(a.peers.put, "b", lie)
        assert len(b.disk) == 0
        assert b.disk.refusals.inserts == 2


@on_loop
async def test_a_put_that_does_not_fit_is_refused_and_the_connection_lives(tmp_path: Path) -> None:
    async with two_nodes(tmp_path, of_b={"quota_bytes": 16384}) as (a, b):
        with pytest.raises(errors.NeverFitsError):
            await asyncio.to_thread(a.peers.put, "b", verified(random.Random(3).randbytes(3 << 20)))
        for number in (1, 2):
            raw = random.Random(number).randbytes(8000)
            if number == 1:  # what never fits says nothing of others
                await asyncio.to_thread(a.peers.put, "b", verified(raw))
                continue
            with pytest.raises(errors.ResourceExhaustedError):
                await asyncio.to_thread(a.peers.put, "b", verified(raw))
        with pytest.raises(errors.ResourceExhaustedError, match="a moment ago"):
            await asyncio.to_thread(a.peers.put, "b", verified(b"small"))
        assert len(b.disk) == 1


class OfTwoDataSets:
    """One with room for one shard, by its setting, and one with all there is."""

    terms: Mapping[bytes, AccountTerms] = {b"small": AccountTerms("small", 12_288), b"large": AccountTerms("large")}

    def accounts(self, hash: bytes, why: Why) -> Sequence[bytes]:
        return (b"small" if hash[0] < 128 else b"large",)

    def accounts_of(self, hashes: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        return [self.accounts(hash, Why.STANDS) for hash in hashes]


@on_loop
async def test_a_peer_whose_allocation_is_full_is_offered_what_goes_to_others(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        shards = [verified(random.Random(number).randbytes(8000)) for number in range(20)]
        small = [shard for shard in shards if shard.hash[0] < 128]
        other = next(shard for shard in shards if shard.hash[0] >= 128)
        for node in (a, b):
            node.disk.use(OfTwoDataSets())
        await asyncio.to_thread(a.peers.put, "b", small[0])
        with pytest.raises(errors.ResourceExhaustedError, match="does not fit"):
            await asyncio.to_thread(a.peers.put, "b", small[1])
        with pytest.raises(errors.ResourceExhaustedError, match="a moment ago"):
            await asyncio.to_thread(a.peers.put, "b", small[1])
        await asyncio.to_thread(a.peers.put, "b", other)
        assert set(b.disk.hashes()) == {small[0].hash, other.hash}


def verified(raw: bytes) -> VerifiedShard:
    return VerifiedShard.check(hashlib.sha256(raw).digest(), raw, "test")


@on_loop
async def test_who_names_another_hash_does_not_get_the_shard(tmp_path: Path, digest: Digest) -> None:
    async with two_nodes(tmp_path, digest) as (a, b):
        await read_all(b, digest, ["b"] * digest.num_shards)
        guess = dataclasses.replace(digest.shard(0), hash=digest.hashes[1].tobytes())
        with pytest.raises(errors.UnavailableError, match="not the hash of shard 0"):
            await a.peers.get("b", digest, guess)


@pytest.mark.parametrize(("token", "complaint"), [("", "no token was shown"), ("wrong", "wrong token")])
@on_loop
async def test_a_wrong_token_is_refused(tmp_path: Path, digest: Digest, token: str, complaint: str) -> None:
    async with two_nodes(tmp_path, digest, of_a={"token": token}, of_b={"token": "right"}) as (a, _):
        with pytest.raises(errors.UnavailableError, match=complaint):
            await a.peers.get("b", digest, digest.shard(0))


@on_loop
async def test_nobody_waits_for_a_node_that_is_no_member_any_more(tmp_path: Path, digest: Digest) -> None:
    class Stuck(LocalStore):
        asked, let_go = threading.Event(), threading.Event()

        def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
            self.asked.set()
            assert self.let_go.wait(30)
            return super().read(uri, offset, length, generation, deadline_s)

    async with two_nodes(tmp_path, digest, of_b={"store_for": lambda _: Stuck()}) as (a, _):
        a.peers.members_changed()
        waiting = asyncio.ensure_future(a.source.get(digest, 0, "b"))
        assert await asyncio.to_thread(Stuck.asked.wait, 20)
        gone = a.members.pop()
        assert gone.node_id == "b"
        a.peers.members_changed()
        async with asyncio.timeout(2.0):
            assert is_shard(await waiting, digest, 0)
        assert a.meter.store_requests == 1
        Stuck.let_go.set()


@pytest.mark.slow
@on_loop
async def test_connections_to_a_node_that_is_no_member_any_more_are_not_kept(tmp_path: Path, digest: Digest) -> None:
    async with two_nodes(tmp_path, digest, of_a={"hot_bytes": 0}) as (a, b):
        a.peers.members_changed()
        await read_all(a, digest, ["b"] * digest.num_shards)
        assert connections_to(b.address) > 0
        del a.members[1]
        a.peers.members_changed()
        assert connections_to(b.address) == 0


def connections_to(address: str) -> int:
    """Of this process, open at the end that made them."""
    theirs = [one.raddr for one in psutil.Process().net_connections("tcp") if one.raddr]
    return sum(f"{there.ip}:{there.port}" == address for there in theirs)
