"""What scans have left on a node goes when it is nobody's, and not before."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given

from tests.support.aio import on_loop
from tests.support.cluster import wait_until
from tests.support.digests import digest_of
from tests.support.disks import fill, tmpfs
from tests.support.privileges import needs_mounts
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.evicting_emptying_removing_leftovers.leftovers import KEPT_S, Leftovers
from tfquiver.service.node.evicting_emptying_removing_leftovers.placed_log import PlacedLog
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_hashes, strike

HASHES = [hashlib.sha256(bytes([number])).digest() for number in range(12)]
MINE, OTHERS, NOBODYS = HASHES[:4], HASHES[4:8], HASHES[8:]
DIGESTS = {b"mine": MINE, b"others": OTHERS}


class Node:
    """It has the digest of MINE; another data set, which it does not know, names OTHERS."""

    def __init__(self, root: Path) -> None:
        self.now_s, self.ahead_s, self.scanning = 1_000_000.0, 0.0, False  # the steady clock, and what was set
        self.disk = set(HASHES)
        self.here, self.on_disk, self.registered = {b"mine"}, {b"mine"}, [b"others", b"mine"]
        self.tells, self.keeps, self.asked_for = True, True, list[bytes]()
        self.trouble: errors.TfquiverError | None = None
        self.log = PlacedLog(root / "placed.log", lambda: self.now_s + self.ahead_s, lambda: self.now_s)
        for hash in HASHES:
            self.log.note(hash)
        self.left = Leftovers(
            self.log, self.disk.__contains__, self.named_here, self.unclaimed, self.get, self.give_up,
            lambda: self.now_s,
        )  # fmt: skip

    async def named_here(self, parts: Prefixes) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        here, on_disk = ([hash for one in ids for hash in DIGESTS[one]] for ids in (self.here, self.on_disk))
        return np.isin(parts, of_hashes(here)), np.isin(parts, of_hashes(on_disk))

    async def unclaimed(self, prefixes: bytes) -> pb.UnclaimedReply:
        if self.scanning:
            return pb.UnclaimedReply(scanning=True)
        asked = [prefixes[at : at + 8] for at in range(0, len(prefixes), 8)]
        by = [
            next((one for one in self.registered if any(hash[:8] == it for hash in DIGESTS[one])), None) for it in asked
        ]
        ids = sorted({one for one in by if one}) if self.tells else ()
        return pb.UnclaimedReply(unclaimed=bytes(one is None for one in by), digest_ids=ids)

    async def get(self, digest_id: bytes) -> None:
        self.asked_for.append(digest_id)
        if self.trouble:
            raise self.trouble
        self.here.add(digest_id)
        if self.keeps:
            self.on_disk.add(digest_id)

    async def give_up(self, hashes: Sequence[bytes]) -> None:
        self.disk -= set(hashes)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.log.close()


def noted(path: Path) -> Mapping[bytes, float]:
    """As Unix time is told."""
    log = PlacedLog(path, lambda: 1e6, lambda: 1e6)
    log.close()
    return log.noted()


@on_loop
async def test_what_nobody_names_goes_an_hour_later(node: Node) -> None:
    for noted_still in ({*OTHERS, *NOBODYS}, set(NOBODYS)):
        assert await node.left.look()
        assert (node.disk, set(node.log.noted())) == (set(HASHES), noted_still), "the others have an owner here"
    node.now_s += KEPT_S - 1
    await node.left.look()
    assert node.disk == set(HASHES)
    node.now_s += 1
    await node.left.look()
    assert (node.disk, node.log.noted()) == ({*MINE, *OTHERS}, {})


@on_loop
async def test_what_another_nodes_scan_left_here_goes_with_its_data_set(node: Node) -> None:
    """Of that it has no digest, by which it would go. It stayed for good."""
    await node.left.look()
    assert node.here == {b"mine", b"others"}, "it has it from now on"
    await node.left.look()
    assert set(node.log.noted()) == set(NOBODYS) and node.asked_for == [b"others"]


@on_loop
async def test_what_a_digest_names_that_the_disk_has_not_taken_is_noted_still(node: Node) -> None:
    """After a kill it is here no more, and its data set may have been removed."""
    node.on_disk = set()
    await node.left.look()
    assert set(node.log.noted()) == set(HASHES)
    node.registered, node.here = [b"others"], {b"others"}  # it was killed
    node.left.abandoned()
    await node.left.look()
    assert node.disk == set(OTHERS)


@pytest.mark.parametrize("trouble", [errors.NotFoundError("removed meanwhile"), errors.UnavailableError("away")])
@on_loop
async def test_what_is_anothers_whose_digest_cannot_be_had_is_noted_still(
    node: Node, trouble: errors.TfquiverError
) -> None:
    node.trouble = trouble
    for _ in range(2):
        await node.left.look()
        assert set(node.log.noted()) == {*OTHERS, *NOBODYS}
    node.trouble = None
    await node.left.look()
    await node.left.look()
    assert set(node.log.noted()) == set(NOBODYS)


@on_loop
async def test_no_digest_is_got_again_and_again_that_the_disk_does_not_keep(node: Node) -> None:
    node.keeps = False
    await node.left.look()
    node.here.discard(b"others")  # others were used since
    for _ in range(3):
        await node.left.look()
    assert node.asked_for == [b"others"] and set(node.log.noted()) == set(NOBODYS)


@on_loop
async def test_a_coordinator_that_tells_no_digests_is_believed(node: Node) -> None:
    """An older one."""
    node.tells = False
    await node.left.look()
    assert set(node.log.noted()) == set(NOBODYS)


async def another_scan_keeps_what_it_finds(node: Node) -> None:
    node.now_s += 61
    node.log.note(NOBODYS[0])
    node.disk.add(NOBODYS[0])
    await node.left.look()
    assert NOBODYS[0] in node.disk


@pytest.mark.parametrize("wrong_by_s", [-1e6, 1e6])
@on_loop
async def test_a_clock_that_is_set_hurries_nothing_and_keeps_nothing_longer(node: Node, wrong_by_s: float) -> None:
    """1970, for a minute, while a scan placed them: an hour is an hour."""
    node.ahead_s, node.scanning = wrong_by_s, True
    for hash in NOBODYS[:2]:
        node.log.settle([hash])
        node.log.note(hash)
    await node.left.look()
    node.ahead_s, node.scanning = 0.0, False
    node.now_s += KEPT_S - 1
    await node.left.look()
    assert node.disk == set(HASHES), "they go after an hour"
    node.now_s += 1
    await node.left.look()
    assert node.disk == {*MINE, *OTHERS}


@pytest.mark.parametrize("wrong_by_s", [-1e6, 1e6])
@on_loop
async def test_what_a_deletion_has_left_goes_whatever_the_clock_is_set_to(node: Node, wrong_by_s: float) -> None:
    node.ahead_s = wrong_by_s
    node.left.abandoned()
    node.ahead_s = 0.0
    await node.left.look()
    assert node.disk == {*MINE, *OTHERS}
    await another_scan_keeps_what_it_finds(node)


@pytest.mark.parametrize("wrong_by_s", [-2e6, 0.0, 2e6])
def test_a_restart_knows_how_long_ago_it_was_as_far_as_clocks_tell(tmp_path: Path, wrong_by_s: float) -> None:
    """The next process has another steady clock. No date is before 1970, and none is later than now."""
    first = PlacedLog(tmp_path / "placed.log", lambda: 1e6 + wrong_by_s, lambda: 50.0)
    for hash in HASHES:
        first.note(hash)
    first.settle(HASHES[1:])  # it is written anew
    first.close()
    again = PlacedLog(tmp_path / "placed.log", lambda: 1e6 + 100, lambda: 7.0)
    again.close()
    ago_s = {-2e6: 1e6 + 100, 0.0: 100, 2e6: 0}[wrong_by_s]
    assert again.noted() == {HASHES[0]: 7.0 - ago_s}


@on_loop
async def test_nothing_goes_while_something_is_scanned_nor_for_an_hour_after_it(node: Node) -> None:
    node.scanning = True
    node.now_s += 10 * KEPT_S
    assert await node.left.look()
    assert len(node.log.noted()) == len(HASHES)
    node.scanning = False
    await node.left.look()
    assert node.disk == set(HASHES), "whoever asks for it again finds it"
    node.now_s += KEPT_S
    await node.left.look()
    assert node.disk == {*MINE, *OTHERS}


@on_loop
async def test_what_a_data_set_that_was_deleted_has_left_goes_at_once(node: Node) -> None:
    node.left.abandoned()
    node.scanning = True
    assert not await node.left.look(), "it is to be looked at again soon: a scan is under way"
    node.scanning = False
    assert await node.left.look()
    assert node.disk == {*MINE, *OTHERS}
    await another_scan_keeps_what_it_finds(node)


@on_loop
async def test_what_is_on_its_way_to_the_disk_stays_noted(node: Node) -> None:
    node.disk.remove(NOBODYS[0])  # it does not stand yet
    await node.left.look()
    assert NOBODYS[0] in node.log.noted()
    node.now_s += 61
    await node.left.look()
    assert NOBODYS[0] not in node.log.noted(), "it was refused"


def test_what_is_noted_survives_a_kill_and_what_is_settled_does_not_come_back(tmp_path: Path) -> None:
    path, now = tmp_path / "placed.log", [10.0]
    log = PlacedLog(path, lambda: now[0], lambda: now[0])
    for hash in HASHES:
        log.note(hash)
    now[0] = 20.0
    log.note(HASHES[0])
    assert noted(path) == dict.fromkeys(HASHES, 10)
    again = PlacedLog(path)  # the first one was not closed: its node was killed
    log.close()
    again.settle(HASHES[3:])
    again.note(HASHES[5])
    again.close()
    assert noted(path).keys() == {*HASHES[:3], HASHES[5]}
    assert path.stat().st_size == 5 * 40


@given(st.binary(max_size=200), st.integers(0, 400))
def test_a_file_that_is_torn_or_garbage_costs_no_more_than_itself(tail: bytes, keep: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "placed.log"
        log = PlacedLog(path)
        for hash in HASHES:
            log.note(hash)
        log.close()
        path.write_bytes(path.read_bytes()[:keep] + tail)
        again = PlacedLog(path)
        again.note(b"n" * 32)
        again.close()
        assert noted(path)[b"n" * 32] > 0


@needs_mounts
def test_what_is_noted_while_the_disk_is_full_is_written_when_it_is_not(tmp_path: Path) -> None:
    """It was written with the next one that came, if any did."""
    with tmpfs(tmp_path / "small", 1 << 20) as small:
        log = PlacedLog(small / "placed.log")
        log.note(HASHES[0])
        others = fill(small)
        for hash in HASHES[1:]:
            for number in range(100):  # more than a block has room for
                log.note(hash[:31] + bytes([number]))
        others.unlink()
        whole = 40 * (1 + len(log.noted()))
        assert (small / "placed.log").stat().st_size < whole
        wait_until(lambda: (small / "placed.log").stat().st_size == whole, "all of it is written")
        log.close()


def test_no_more_is_noted_than_there_is_memory_for(tmp_path: Path) -> None:
    log = PlacedLog(tmp_path / "placed.log", max_noted=3)
    for hash in HASHES:
        log.note(hash)
    log.close()
    assert len(log.noted()) == 3


@pytest.mark.parametrize("count", [0, 1, 5])
def test_striking_finds_each_that_is_named(count: int) -> None:
    ordered = np.sort(of_hashes(HASHES[:8]))
    struck = np.zeros(8, np.bool_)
    named = HASHES[8 - count : 8] + NOBODYS
    strike(struck, ordered, digest_of(named).hashes)
    assert set(ordered[struck].tolist()) == set(of_hashes(HASHES[8 - count : 8]).tolist())


@on_loop
async def test_what_a_slow_disk_takes_more_than_a_minute_to_keep_is_known_of_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not stand for so long, and is taken for gone; if its scan comes to nothing it would stay for good."""
    node, begun, goes_on, insert = Node(tmp_path), threading.Event(), threading.Event(), DiskCache.insert
    disk = DiskCache(tmp_path / "disk", 1 << 30)
    disk.on_placed = node.log.note
    body = b"body"
    shard = VerifiedShard.check(hashlib.sha256(body).digest(), body, "f")
    node.left._is_here = disk.__contains__

    def slowly(self: DiskCache, *arguments: Any) -> None:
        begun.set()
        goes_on.wait(60)
        insert(self, *arguments)

    monkeypatch.setattr(DiskCache, "insert", slowly)
    placing = asyncio.create_task(asyncio.to_thread(disk.insert_placed, shard))
    await asyncio.to_thread(begun.wait, 60)
    node.now_s += 61
    await node.left.look()
    goes_on.set()
    await placing
    assert shard.hash in disk and shard.hash in node.log.noted()
    node.log.close()


@on_loop
async def test_what_comes_to_stand_while_it_is_taken_for_gone_is_known_of(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.disk.remove(NOBODYS[0])
    node.now_s += 61
    settle = node.log.settle

    def lands(hashes: Iterable[bytes]) -> None:
        node.disk.add(NOBODYS[0])  # and it is noted still
        settle(hashes)

    node.log.settle = lands  # type: ignore[method-assign]
    await node.left.look()
    assert NOBODYS[0] in node.log.noted()
    node.log.close()
