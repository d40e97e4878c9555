"""What a node deletes when data sets have been removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.digests import digest_of
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.node.digests_kept_here.other_digests import OtherDigests
from tfquiver.service.node.evicting_emptying_removing_leftovers.removals import Removals


class Node:
    """Digests on the disk; a coordinator that has removed `gone`."""

    def __init__(self, directory: Path, *digests: Digest) -> None:
        self.digests = {digest.digest_id: digest for digest in digests}
        for digest in digests:
            digest.save(directory / f"{digest.digest_id.hex()}.tfqd")
        self.directory, self.gone, self.deleted = directory, set[bytes](), list[bytes]()
        self.damaged = set[bytes]()
        self.stands, self.reads_until_dropped = set[bytes](), list[bytes]()
        self.comes: Digest | None = None  # when another goes, with its shards
        self.fails, self.read, self.waited_for = False, list[bytes](), list[bytes]()
        self.meanwhile: Callable[[], object] = lambda: None  # while it waits for what is on its way
        self.others = others = OtherDigests(self.here, self.peek, self.digest)
        self.removals = Removals(
            lambda: sorted(self.here()), self.digest, others, self.drop, self.removed, self.give_up, self.still
        )

    async def digest(self, digest_id: bytes) -> Digest:
        self.read.append(digest_id)
        if digest_id in self.damaged:
            raise errors.NotFoundError("gone")
        return self.digests[digest_id]

    async def peek(self, digest_ids: Sequence[bytes]) -> AsyncIterator[list[Digest]]:
        for digest_id in digest_ids:
            if digest_id not in self.damaged:
                yield [await self.digest(digest_id)]

    async def drop(self, digest_id: bytes) -> None:
        self.stands.update(self.reads_until_dropped)
        (self.directory / f"{digest_id.hex()}.tfqd").unlink()
        if (new := self.comes) is not None:
            self.digests[new.digest_id] = new
            new.save(self.directory / f"{new.digest_id.hex()}.tfqd")
            self.stands.update(row.tobytes() for row in new.hashes)

    async def removed(self, digest_ids: Sequence[bytes]) -> Sequence[bytes]:
        return [digest_id for digest_id in digest_ids if digest_id in self.gone]

    async def give_up(self, hashes: Sequence[bytes]) -> None:
        if self.fails:
            raise errors.UnavailableError("the disk hangs")
        self.stands.difference_update(hashes)
        self.deleted += [hash for hash in hashes if hash not in self.deleted]

    async def still(self, digest_ids: Sequence[bytes]) -> None:
        self.waited_for += digest_ids
        self.meanwhile()

    def here(self) -> set[bytes]:
        return {bytes.fromhex(path.stem) for path in self.directory.glob("?" * 64 + ".tfqd")}


def named(digest: Digest, name: str = "x", keeps_nothing: bool = True) -> pb.NamedDigest:
    return pb.NamedDigest(digest_id=digest.digest_id, name=name, keeps_nothing=keeps_nothing)


def hashes(*shards: int) -> list[bytes]:
    return [bytes([shard]) * 32 for shard in shards]


@on_loop
async def test_what_is_on_its_way_is_waited_for(tmp_path: Path) -> None:
    first, second = digest_of(hashes(1, 2)), digest_of(hashes(3))
    node = Node(tmp_path, first, second)
    await node.removals.give_up([first.digest_id])
    node.gone = {second.digest_id}
    await node.removals.carry_out()
    assert node.waited_for == [first.digest_id, second.digest_id]


@on_loop
async def test_what_is_made_anew_while_that_is_waited_for_keeps_what_it_names(tmp_path: Path) -> None:
    emptied, deleted = digest_of(hashes(1, 2)), digest_of(hashes(2, 3))
    node = Node(tmp_path, emptied, deleted)
    node.removals.emptied({deleted.digest_id}, {deleted.digest_id})
    node.removals.emptied({emptied.digest_id}, set())
    node.gone, node.meanwhile = {deleted.digest_id}, lambda: node.gone.clear()
    await node.removals.give_up([emptied.digest_id])
    assert {hash[0] for hash in node.deleted} == {1}


@on_loop
async def test_what_keeps_nothing_keeps_nothing_that_a_scan_has_left(tmp_path: Path) -> None:
    emptied, other = digest_of(hashes(1, 2)), digest_of(hashes(2, 3))
    node = Node(tmp_path, emptied, other)
    node.removals.wanted([named(emptied), named(other, keeps_nothing=False)])
    assert await node.removals.keeping() == [other.digest_id]


@on_loop
async def test_nothing_goes_that_was_not_removed(tmp_path: Path) -> None:
    node = Node(tmp_path, digest_of(hashes(1, 2)), digest_of(hashes(3)))
    await node.removals.carry_out()
    assert (node.deleted, len(node.here())) == ([], 2)


@on_loop
async def test_what_only_the_removed_have_goes(tmp_path: Path) -> None:
    first, second, third = digest_of(hashes(1, 2, 3)), digest_of(hashes(3, 4)), digest_of(hashes(2, 5))
    node = Node(tmp_path, first, second, third)
    node.gone = {first.digest_id, third.digest_id}
    await node.removals.carry_out()
    assert {hash[0] for hash in node.deleted} == {1, 2, 5}
    assert node.here() == {second.digest_id}


@on_loop
async def test_what_is_emptied_while_another_goes_that_shares_some_keeps_nothing(tmp_path: Path) -> None:
    """Each left the other what they share, and the first of them kept it when the second was no more."""
    emptied, deleted, stays = digest_of(hashes(1, 2, 3)), digest_of(hashes(2, 3, 4)), digest_of(hashes(3, 5))
    node = Node(tmp_path, emptied, deleted, stays)
    both = {emptied.digest_id, deleted.digest_id}
    node.removals.emptied(both, {deleted.digest_id})
    await node.removals.give_up([emptied.digest_id])
    assert {hash[0] for hash in node.deleted} == {1, 2}
    await node.removals.give_up([deleted.digest_id])
    assert {hash[0] for hash in node.deleted} == {1, 2, 4}


@pytest.mark.parametrize("is_removed", [False, True])
@on_loop
async def test_what_was_deleted_keeps_nothing_until_its_digest_goes(tmp_path: Path, is_removed: bool) -> None:
    """Nothing is ordered any more for one that was deleted, and it is here still; unless it has been made anew."""
    emptied, deleted = digest_of(hashes(1, 2)), digest_of(hashes(2, 3))
    node = Node(tmp_path, emptied, deleted)
    node.removals.emptied({deleted.digest_id}, {deleted.digest_id})
    node.removals.emptied({emptied.digest_id}, set())
    node.gone = {deleted.digest_id} if is_removed else set()
    await node.removals.give_up([emptied.digest_id])
    assert {hash[0] for hash in node.deleted} == ({1, 2} if is_removed else {1})


@on_loop
async def test_what_is_being_emptied_keeps_nothing_of_what_was_removed(tmp_path: Path) -> None:
    emptied, removed = digest_of(hashes(1, 2)), digest_of(hashes(2, 3))
    node = Node(tmp_path, emptied, removed)
    node.gone = {removed.digest_id}
    node.removals.emptied({emptied.digest_id}, set())
    await node.removals.carry_out()
    assert {hash[0] for hash in node.deleted} == {2, 3}
    assert node.here() == {emptied.digest_id}


@pytest.mark.parametrize("is_deleted", [True, False])
@on_loop
async def test_what_an_evicted_one_shares_goes_with_the_other_one(tmp_path: Path, is_deleted: bool) -> None:
    """It has left that to the other one, and it was counted to it when that was no more."""
    emptied, other, stays = digest_of(hashes(1, 2, 3)), digest_of(hashes(2, 3, 4)), digest_of(hashes(3, 5))
    node = Node(tmp_path, emptied, other, stays)
    await node.removals.give_up([emptied.digest_id])
    assert {hash[0] for hash in node.deleted} == {1}
    node.removals.wanted([named(emptied), named(other, keeps_nothing=False)])
    if is_deleted:
        node.gone = {other.digest_id}
        await node.removals.carry_out()
    else:
        await node.removals.give_up([other.digest_id])
    assert {hash[0] for hash in node.deleted} == {1, 2, 4}


@on_loop
async def test_what_was_used_since_it_was_evicted_keeps_what_it_has_by_any_of_its_names(tmp_path: Path) -> None:
    used, other = digest_of(hashes(1, 2)), digest_of(hashes(2, 3))
    node = Node(tmp_path, used, other)
    node.removals.wanted([named(used), named(used, "y", keeps_nothing=False)])
    await node.removals.give_up([other.digest_id])
    assert {hash[0] for hash in node.deleted} == {3}


@on_loop
async def test_what_is_wanted_again_is_read_when_nothing_of_it_goes_any_more(tmp_path: Path) -> None:
    emptied, other = digest_of(hashes(1, 2)), digest_of(hashes(2, 3))
    node = Node(tmp_path, emptied, other)
    node.removals.wanted([named(emptied)])
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def give_up(hashes: Sequence[bytes]) -> None:
        begun.set()
        await may_go_on.wait()

    node.removals._give_up = give_up
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        going = group.create_task(node.removals.give_up([other.digest_id]))
        await begun.wait()
        node.removals.wanted([named(emptied, keeps_nothing=False)])
        waits = group.create_task(node.removals.let_go(emptied.digest_id))
        await node.removals.let_go(bytes(32))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waits.done() and not going.done()
        may_go_on.set()
    await node.removals.let_go(emptied.digest_id)


@on_loop
async def test_what_somebody_has_fetched_again_meanwhile_goes_too(tmp_path: Path) -> None:
    """A mount reads on until its node does not know the digest any more."""
    only = digest_of(hashes(1, 2))
    node = Node(tmp_path, only)
    node.gone = {only.digest_id}
    node.reads_until_dropped = hashes(1)
    await node.removals.carry_out()
    assert (node.stands, node.here()) == (set(), set())


@on_loop
async def test_what_is_made_anew_while_something_is_on_its_way_stays(tmp_path: Path) -> None:
    """It was removed when that was asked; made again and read since, it went, and its pin was told of as whole."""
    again, goes = digest_of(hashes(1, 2)), digest_of(hashes(2, 3))
    node = Node(tmp_path, again, goes)
    node.gone = {again.digest_id, goes.digest_id}

    async def still(digest_ids: Sequence[bytes]) -> None:
        node.gone = {goes.digest_id}
        await node.removals.let_go(again.digest_id)  # so it is read now

    node.removals._still = still
    await node.removals.carry_out()
    assert ({hash[0] for hash in node.deleted}, node.here()) == ({3}, {again.digest_id})


@pytest.mark.parametrize("same", [False, True])
@on_loop
async def test_what_has_come_meanwhile_over_the_same_files_keeps_its_shards(tmp_path: Path, same: bool) -> None:
    gone, new = digest_of(hashes(1, 2, 3)), digest_of(hashes(2, 4), "new")
    node = Node(tmp_path, gone)
    node.gone, node.comes = {gone.digest_id}, gone if same else new
    node.reads_until_dropped = hashes(1, 2)
    await node.removals.carry_out()
    assert {hash[0] for hash in node.stands} == ({1, 2, 3} if same else {2, 4})


@on_loop
async def test_a_pass_that_failed_is_made_good(tmp_path: Path) -> None:
    only = digest_of(hashes(1, 2))
    node = Node(tmp_path, only)
    node.gone, node.fails = {only.digest_id}, True
    with pytest.raises(errors.UnavailableError):
        await node.removals.carry_out()
    assert node.here() == {only.digest_id}
    node.fails = False
    await node.removals.carry_out()
    assert ({hash[0] for hash in node.deleted}, node.here()) == ({1, 2}, set())


@on_loop
async def test_a_digest_that_cannot_be_read_goes_all_the_same(tmp_path: Path) -> None:
    only = digest_of(hashes(1))
    node = Node(tmp_path, only)
    node.gone = node.damaged = {only.digest_id}
    await node.removals.carry_out()
    assert (node.deleted, node.here()) == ([], set())


@on_loop
async def test_each_digest_is_read_once_however_many_data_sets_go(tmp_path: Path) -> None:
    many = [digest_of(hashes(0, 2 * number + 1, 2 * number + 2), f"d{number}") for number in range(40)]
    node = Node(tmp_path, *many)
    node.gone = {digest.digest_id for digest in many[:20]}
    await node.removals.carry_out()
    assert sorted(node.read) == sorted(digest.digest_id for digest in many)
    assert sorted(hash[0] for hash in node.deleted) == list(range(1, 41)), "0 is in those that stay"
    assert node.here() == {digest.digest_id for digest in many[20:]}


@on_loop
async def test_what_one_eviction_has_read_the_next_does_not_read_again(tmp_path: Path) -> None:
    many = [digest_of(hashes(0, number + 1), f"d{number}") for number in range(100)]
    node = Node(tmp_path, *many)
    await node.removals.give_up([many[0].digest_id])
    node.read.clear()
    new = digest_of(hashes(2, 200), "new")
    node.digests[new.digest_id] = new
    new.save(tmp_path / f"{new.digest_id.hex()}.tfqd")
    await node.removals.give_up([many[1].digest_id])
    await node.removals.give_up([many[2].digest_id])
    assert [hash[0] for hash in node.deleted] == [1, 3], "2 is in the new one"
    assert sorted(node.read) == sorted(one.digest_id for one in (new, *many[:3]))


@on_loop
async def test_a_digest_that_is_here_no_more_names_nothing(tmp_path: Path) -> None:
    first, second = digest_of(hashes(1, 2)), digest_of(hashes(2, 3), "second")
    node = Node(tmp_path, first, second)
    await node.removals.give_up([first.digest_id])
    await node.drop(second.digest_id)
    await node.removals.give_up([first.digest_id])
    assert [hash[0] for hash in node.deleted] == [1, 2]


@pytest.mark.slow
@on_loop
async def test_digests_are_read_before_something_is_evicted(tmp_path: Path) -> None:
    many = [digest_of(hashes(0, number + 1), f"d{number}") for number in range(100)]
    node = Node(tmp_path, *many)
    node.others.start()
    while len(node.read) < 100:
        await asyncio.sleep(0)
    node.read.clear()
    await node.removals.give_up([many[0].digest_id])
    await node.others.close()
    assert (node.read, [hash[0] for hash in node.deleted]) == ([many[0].digest_id], [1])
