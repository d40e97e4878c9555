"""A peer that sends other bytes than those it was asked for: nobody is given them, and readers get theirs elsewhere."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import threading
import time
from pathlib import Path

import pytest
import zstandard
from absl import logging

from tests.support import records
from tests.support.aio import on_loop
from tests.support.rogue_peer import Answer, RoguePeer, raw_body
from tests.support.store_node import Members, StoreNode, build, is_shard, raw_of, write_files
from tfquiver import errors, stores
from tfquiver.digests.digest import Digest
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.connections_between_nodes import peer_standing
from tfquiver.service.node.connections_between_nodes.peer_connection import PeerConnection
from tfquiver.service.node.connections_between_nodes.peers import PeerClient
from tfquiver.service.node.disk import entry


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    return build(write_files(tmp_path / "data", files=1))


def shard_bytes(digest: Digest, shard: int) -> bytes:
    ref = digest.shard(shard)
    return stores.for_uri(ref.file.uri).read(ref.file.uri, ref.offset, ref.length_bytes, ref.file.generation, 10.0)


def others(digest: Digest) -> Answer:
    """Other bytes, with checksums that are right for them."""
    return lambda shard, _: raw_body(bytes(digest.shard(shard).length_bytes))


def squeezed(digest: Digest) -> Answer:
    """The same, as zstd."""

    def answer(shard: int, _: bytes) -> tuple[entry.Header, bytes]:
        header, raw = raw_body(bytes(digest.shard(shard).length_bytes))
        stored = zstandard.compress(raw)
        crc32c = raw_body(stored)[0].crc32c_stored
        return dataclasses.replace(header, codec=entry.ZSTD, stored_length=len(stored), crc32c_stored=crc32c), stored

    return answer


def bomb(digest: Digest) -> Answer:
    """A frame of a gigabyte that says so itself, under a header that does not."""
    stored = zstandard.compress(bytes(1 << 30))[: 1 << 15]

    def answer(shard: int, _: bytes) -> tuple[entry.Header, bytes]:
        size = digest.shard(shard).length_bytes
        part = stored[:size]
        crc32c = raw_body(part)[0].crc32c_stored
        return entry.Header(entry.ZSTD, size, len(part), 0, crc32c, bytes(32)), part

    return answer


LIES = {"other bytes": others, "other bytes as zstd": squeezed, "a zstd bomb": bomb}


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
@on_loop
async def test_no_reader_is_given_what_is_not_the_shard(tmp_path: Path, digest: Digest, lie: str) -> None:
    with RoguePeer(LIES[lie](digest)) as rogue:
        async with StoreNode(tmp_path / "a", [digest], node_id="a", members=[rogue.member]) as a:
            for _ in range(2):  # the second time from the hot set, where there is one
                got = [await a.source.get(digest, index, "rogue") for index in range(digest.num_shards)]
                right = [is_shard(ready, digest, index) for index, ready in enumerate(got)]
                assert all(right)
            assert a.source.stats().peer_mismatches == len(rogue.asked) == 1, "it is asked no more for a while"
            assert a.source.stats().peer_hits == 0


@on_loop
async def test_the_log_names_peer_and_hash(tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(logging, "error", lambda text, *arguments: said.append(text % arguments))
    with RoguePeer(others(digest)) as rogue:
        async with StoreNode(tmp_path / "a", [digest], node_id="a", members=[rogue.member]) as a:
            (await a.source.get(digest, 3, "rogue")).close()
        (line,) = said
        assert f"node rogue at {rogue.member.data_address}" in line
        assert digest.hashes[3].tobytes().hex() in line
        assert f"left alone for {peer_standing.DISTRUST_S:g} s" in line


@on_loop
async def test_it_is_not_asked_through_another_address_either(tmp_path: Path, digest: Digest) -> None:
    with RoguePeer(others(digest)) as rogue, RoguePeer(others(digest)) as moved:
        members = [rogue.member]
        async with StoreNode(tmp_path / "a", [digest], node_id="a", members=members) as a:
            (await a.source.get(digest, 0, "rogue")).close()
            members[0] = moved.member
            (await a.source.get(digest, 1, "rogue")).close()
            assert (len(rogue.asked), moved.asked) == (1, [])


@on_loop
async def test_right_bytes_under_a_wrong_checksum_are_used_with_the_right_one(tmp_path: Path, digest: Digest) -> None:
    def answer(shard: int, _: bytes) -> tuple[entry.Header, bytes]:
        header, body = raw_body(shard_bytes(digest, shard))
        return dataclasses.replace(header, crc32c_raw=header.crc32c_raw ^ 1), body

    with RoguePeer(answer) as rogue:
        async with StoreNode(tmp_path / "a", [digest], node_id="a", members=[rogue.member]) as a:
            ready = await a.source.get(digest, 0, "rogue")
            assert ready.source == "peer"
            assert ready.crc32c == raw_body(raw_of(ready))[0].crc32c_raw


@on_loop
async def test_one_damaged_shard_is_told_and_three_in_a_row_end_the_trust(tmp_path: Path, digest: Digest) -> None:
    def answer(shard: int, _: bytes) -> tuple[entry.Header, bytes]:
        header, body = raw_body(shard_bytes(digest, shard))
        return header, body if shard == 1 else body[:-1] + bytes([body[-1] ^ 1])

    with RoguePeer(answer) as rogue:
        async with StoreNode(tmp_path / "a", [digest], node_id="a", members=[rogue.member]) as a:
            for index in range(8):
                assert is_shard(await a.source.get(digest, index, "rogue"), digest, index)
            assert rogue.asked == [0, 1, 2, 3, 4]
            # Two threads ask a peer: the second may, when the first has an answer and still its connection.
            assert rogue.connections <= 2, "a connection lives through a damaged body"
            assert a.source.stats().peer_mismatches == 4
        assert rogue.told_bad[:3] == [digest.hashes[index].tobytes() for index in (0, 2, 3)]


@pytest.mark.parametrize(("proven", "hits"), [("the token", 1), ("another", 0)])
@on_loop
async def test_only_who_proves_the_token_is_trusted_and_only_when_told_to(
    digest: Digest, proven: str, hits: int
) -> None:
    with RoguePeer(others(digest), token=proven) as rogue:
        peers = PeerClient("a", lambda: [rogue.member], "the token", trust=True)
        try:
            (await peers.get("rogue", digest, digest.shard(0))).close()
            got = 1
        except (errors.UnavailableError, errors.DataLossError):
            got = 0
        await peers.close()
        assert got == hits


@on_loop
async def test_who_answers_must_be_who_was_dialled(tmp_path: Path, digest: Digest) -> None:
    with RoguePeer(others(digest), says="someone\nelse") as rogue:
        async with StoreNode(tmp_path / "a", [digest], node_id="a", members=[rogue.member]) as a:
            with pytest.raises(errors.UnavailableError, match=r"answers node someone\\nelse: see --advertise_host"):
                await a.peers.get("rogue", digest, digest.shard(0))
            assert is_shard(await a.source.get(digest, 0, "rogue"), digest, 0)
            assert rogue.asked == []


@on_loop
async def test_a_node_whose_address_leads_to_itself_does_not_wait_for_itself(tmp_path: Path, digest: Digest) -> None:
    members: Members = []
    async with asyncio.timeout(5), StoreNode(tmp_path / "a", [digest], node_id="a", members=members) as a:
        members.append(type(members[0])(node_id="b", data_address=a.address, quota_bytes=1))
        assert is_shard(await a.source.get(digest, 0, "b"), digest, 0)


@on_loop
async def test_a_body_that_trickles_is_given_up(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time; all of them would not."""
    monkeypatch.setattr("tfquiver.service.node.connections_between_nodes.peer_socket.SILENCE_S", 0.3)

    def trickle(sock: socket.socket, body: bytes) -> None:
        for at in range(0, len(body), 16):
            sock.sendall(body[at : at + 16])
            time.sleep(0.05)

    answer: Answer = lambda shard, _: raw_body(shard_bytes(digest, shard))  # noqa: E731
    with RoguePeer(answer, send=trickle) as rogue:
        async with asyncio.timeout(5), StoreNode(tmp_path / "a", [digest], node_id="a", members=[rogue.member]) as a:
            with pytest.raises(errors.UnavailableError, match="slower than"):
                await a.peers.get("rogue", digest, digest.shard(0))
            assert is_shard(await a.source.get(digest, 0, "rogue"), digest, 0)


@pytest.mark.slow
@on_loop
async def test_the_least_rate_is_that_of_the_whole_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece of 512 KiB came in time for itself, with an allowance of its own: at less than half of the rate."""
    monkeypatch.setattr("tfquiver.service.node.connections_between_nodes.peer_socket.SILENCE_S", 1.0)
    monkeypatch.setattr("tfquiver.service.node.connections_between_nodes.peer_socket.MIN_BYTES_PER_S", 1 << 20)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "f").write_bytes(records.stream([os.urandom(4 << 20)]))
    digest = build(tmp_path / "data" / "f", CutPolicy(1, 1, 1))

    def slowly(sock: socket.socket, body: bytes) -> None:
        for at in range(0, len(body), 64 << 10):
            sock.sendall(body[at : at + (64 << 10)])
            time.sleep(0.12)  # so a piece takes a second, of the 1.5 it would have, and all of it 8, of 5

    answer: Answer = lambda shard, _: raw_body(shard_bytes(digest, shard))  # noqa: E731
    with RoguePeer(answer, send=slowly) as rogue:
        async with StoreNode(tmp_path / "a", [digest], node_id="a", members=[rogue.member]) as a:
            with pytest.raises(errors.UnavailableError, match="slower than"):
                await a.peers.get("rogue", digest, digest.shard(0))


@pytest.mark.parametrize(("then", "connections"), [("is silent", 2), ("closes", 2)])
@on_loop
async def test_a_connection_that_is_silent_or_closed_is_opened_once_more(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch, then: str, connections: int
) -> None:
    """A restarted peer closes it; a network that was cut leaves it silent."""
    monkeypatch.setattr("tfquiver.service.node.connections_between_nodes.peer_socket.SILENCE_S", 0.5)
    let_go, answered = threading.Event(), 0

    def once(sock: socket.socket, body: bytes) -> None:
        nonlocal answered
        answered += 1
        if answered == 1 or (then == "closes" and answered > 2):
            sock.sendall(body)
        elif then == "closes":
            sock.shutdown(socket.SHUT_RDWR)
        else:
            let_go.wait(20)

    answer: Answer = lambda shard, _: raw_body(shard_bytes(digest, shard))  # noqa: E731
    with RoguePeer(answer, send=once) as rogue:
        async with StoreNode(tmp_path / "a", [digest], node_id="a", members=[rogue.member]) as a:
            assert is_shard(await a.peers.get("rogue", digest, digest.shard(0)), digest, 0)
            async with asyncio.timeout(20):  # who asks before the first one is back opens another
                while not any(peer.idle for lanes in a.peers._peers.values() for peer in lanes.values()):
                    await asyncio.sleep(0.01)
            if then == "closes":
                assert is_shard(await a.peers.get("rogue", digest, digest.shard(1)), digest, 1)
            else:
                with pytest.raises(errors.UnavailableError, match="silent for"):
                    await a.peers.get("rogue", digest, digest.shard(1))
            assert rogue.connections == connections
            let_go.set()


@pytest.mark.parametrize(("trust", "trusted"), [(True, True), (False, False)])
@on_loop
async def test_a_node_that_holds_the_token_proves_it(
    tmp_path: Path, digest: Digest, trust: bool, trusted: bool
) -> None:
    async with StoreNode(tmp_path / "b", [digest], node_id="b", token="the token") as b:
        connection = await asyncio.to_thread(PeerConnection, "b", b.address, "the token", "a", trust)
        assert connection._trusted is trusted
        connection.close()
