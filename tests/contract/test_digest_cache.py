"""A node's digests: used from memory whatever the disk does, kept within their limit, forgotten when asked."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.aio import on_loop
from tests.support.disks import ext4, tmpfs
from tests.support.privileges import needs_disks, needs_mounts
from tfquiver import durable, errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.service.node.digests_kept_here.digest_cache import DigestCache

SHARDS = 500


def digest(number: int, shards: int = SHARDS) -> Digest:
    rng = np.random.default_rng(number)
    lengths = np.full(shards, 1000, np.uint64)
    return Digest.build(
        f"set-{number}", [FileEntry(f"/data/{number}", shards * 1000, "1", "none")],
        rng.integers(0, 256, (shards, 32), np.uint8), np.zeros(shards), np.arange(shards) * 1000, lengths,
        np.ones(shards),
    )  # fmt: skip


class Coordinator:
    """Gives the digests it has, and counts."""

    def __init__(self, *digests: Digest) -> None:
        self.digests = {its.digest_id: its for its in digests}
        self.asked: list[bytes] = []

    async def fetch(self, digest_id: bytes) -> AsyncIterator[bytes]:
        self.asked.append(digest_id)
        if digest_id not in self.digests:
            raise errors.NotFoundError(f"no {digest_id.hex()}")
        data = self.digests[digest_id].to_bytes()
        for at in range(0, len(data), 10_000):
            yield data[at : at + 10_000]


async def kept(cache: DigestCache, made: Digest) -> None:
    async with cache.registering(made):
        pass


async def with_cache(
    directory: Path, coordinator: Coordinator, use: Callable[[DigestCache], Awaitable[object]], limit: int = 1 << 30
) -> None:
    aside = [0]

    def set_aside(size_bytes: int) -> None:
        aside.append(size_bytes)
        assert sum(path.stat().st_size for path in directory.iterdir()) <= max(aside[-2:])

    cache = DigestCache(directory, coordinator.fetch, limit, set_aside)
    await cache.start()
    assert aside[-1] == cache.disk_bytes
    try:
        await use(cache)
    finally:
        await cache.close()


@on_loop
async def test_got_once_and_kept_over_a_restart(tmp_path: Path) -> None:
    made = digest(1)
    coordinator = Coordinator(made)

    async def use(cache: DigestCache) -> None:
        found = await asyncio.gather(*(cache.get(made.digest_id) for _ in range(5)))
        assert all(its is found[0] for its in found)
        assert found[0].to_bytes() == made.to_bytes()
        with pytest.raises(errors.NotFoundError):
            await cache.get(bytes(32))

    await with_cache(tmp_path / "d", coordinator, use)
    await with_cache(tmp_path / "d", coordinator, use)
    assert coordinator.asked.count(made.digest_id) == 1


@on_loop
async def test_what_is_damaged_or_unreadable_is_got_again(tmp_path: Path) -> None:
    made = [digest(number) for number in range(3)]
    coordinator = Coordinator(*made)

    async def get_all(cache: DigestCache) -> None:
        for its in made:
            assert (await cache.get(its.digest_id)).to_bytes() == its.to_bytes()

    await with_cache(tmp_path / "d", coordinator, get_all)
    paths = [tmp_path / "d" / f"{its.digest_id.hex()}.tfqd" for its in made]
    os.truncate(paths[0], 5000)
    paths[1].write_bytes(made[2].to_bytes())
    paths[2].chmod(0)
    await with_cache(tmp_path / "d", coordinator, get_all)
    assert coordinator.asked[3:5] == [made[0].digest_id, made[1].digest_id]
    asked = len(coordinator.asked)
    await with_cache(tmp_path / "d", coordinator, get_all)
    assert len(coordinator.asked) == asked, "they have been put back"


@pytest.mark.parametrize("answer", [errors.UnavailableError("away"), errors.NotFoundError("removed")])
@on_loop
async def test_what_is_damaged_is_here_until_it_is_got_or_was_removed(
    tmp_path: Path, answer: errors.TfquiverError
) -> None:
    """What it names is to stay: whoever empties data sets waits for it."""
    made = digest(1)
    await with_cache(tmp_path, Coordinator(made), lambda cache: cache.get(made.digest_id))
    (path,) = tmp_path.glob("*.tfqd")
    os.truncate(path, 5000)

    async def away(digest_id: bytes) -> AsyncIterator[bytes]:
        raise answer
        yield b""

    cache = DigestCache(tmp_path, away)
    await cache.start()
    with pytest.raises(type(answer)):
        await cache.get(made.digest_id)
    assert cache.here() == ([made.digest_id] if isinstance(answer, errors.UnavailableError) else [])
    await cache.close()


@on_loop
async def test_who_only_looks_into_many_uses_none_of_them(tmp_path: Path) -> None:
    made = [digest(number) for number in range(100)]
    coordinator = Coordinator(*made)
    ids = [its.digest_id for its in made]

    async def put_all(cache: DigestCache) -> None:
        for its in made:
            await kept(cache, its)
        while cache._saves:
            await asyncio.sleep(0.01)

    async def look(cache: DigestCache) -> None:
        in_use = await cache.get(ids[7])
        before = [*cache._files], [*cache._open]
        found = [its async for some in cache.peek([bytes(32), *ids]) for its in some]
        assert {its.digest_id for its in found} == {*ids} - {ids[3]}, "that one cannot be read"
        assert any(its is in_use for its in found)
        assert ([*cache._files], [*cache._open]) == before

    await with_cache(tmp_path / "d", coordinator, put_all)
    os.truncate(tmp_path / "d" / f"{ids[3].hex()}.tfqd", 5000)
    await with_cache(tmp_path / "d", coordinator, look)
    assert coordinator.asked == []


@on_loop
async def test_those_used_least_recently_go_and_those_in_use_stay(tmp_path: Path) -> None:
    made = [digest(number) for number in range(6)]
    size_bytes = len(made[0].to_bytes())
    coordinator = Coordinator(*made)
    held = []

    async def use(cache: DigestCache) -> None:
        for its in made:
            held.append(await cache.get(its.digest_id))
        while cache._saves:
            await asyncio.sleep(0.01)
            assert cache.disk_bytes <= 3 * size_bytes + 3 * 4096

    await with_cache(tmp_path / "d", coordinator, use, 3 * (size_bytes + 4096))
    left = {path.stem for path in (tmp_path / "d").iterdir()}
    assert left == {its.digest_id.hex() for its in made[3:]}

    async def smaller(cache: DigestCache) -> None:
        assert cache.disk_bytes == size_bytes
        big = digest(9, 4000)
        await kept(cache, big)
        assert await cache.get(big.digest_id) is big, "what is too large is used from memory"

    await with_cache(tmp_path / "d", coordinator, smaller, size_bytes + 4096)
    assert [path.stem for path in (tmp_path / "d").iterdir()] == [made[5].digest_id.hex()]


@on_loop
async def test_what_is_dropped_is_forgotten(tmp_path: Path) -> None:
    made, other = digest(1), digest(2)
    coordinator = Coordinator(made)

    async def use(cache: DigestCache) -> None:
        using = await cache.get(made.digest_id)
        await kept(cache, other)
        assert set(cache.here()) == {made.digest_id, other.digest_id}
        await cache.drop(made.digest_id)
        await cache.drop(made.digest_id)
        await cache.drop(bytes(32))
        assert using.num_shards == SHARDS, "those who use it go on"
        assert cache.here() == [other.digest_id]
        coordinator.digests.clear()
        with pytest.raises(errors.NotFoundError):
            await cache.get(made.digest_id)
        assert await cache.get(other.digest_id) is other

    await with_cache(tmp_path / "d", coordinator, use)
    assert [path.stem for path in (tmp_path / "d").iterdir()] == [other.digest_id.hex()]


@needs_mounts
@on_loop
async def test_a_full_disk_keeps_no_digest_from_being_used(tmp_path: Path) -> None:
    made, other = digest(1), digest(2)
    coordinator = Coordinator(made)
    with tmpfs(tmp_path / "small", 1 << 20) as small:
        (small / "others").write_bytes(bytes(1000 << 10))

        async def use(cache: DigestCache) -> None:
            assert (await cache.get(made.digest_id)).to_bytes() == made.to_bytes()
            await kept(cache, other)
            assert await cache.get(other.digest_id) is other

        await with_cache(small / "d", coordinator, use)
        assert list((small / "d").iterdir()) == []
        (small / "others").unlink()
        await with_cache(small / "d", coordinator, use)
        assert len(list((small / "d").iterdir())) == 2


@needs_mounts
@on_loop
async def test_what_the_disk_had_no_room_for_is_here_and_kept_when_there_is_some(tmp_path: Path) -> None:
    """It was in memory only until the next start: after a kill nothing knew what its data set has here."""
    made, gone, removed = digest(1), digest(2), digest(3)
    coordinator = Coordinator(made, gone)
    with tmpfs(tmp_path / "small", 1 << 20) as small:
        (small / "others").write_bytes(bytes(1000 << 10))
        cache = DigestCache(small / "d", coordinator.fetch, again_s=0.05)
        await cache.start()
        try:
            await cache.get(made.digest_id)
            await kept(cache, removed)
            await cache.drop(removed.digest_id)
            await kept(cache, gone)
            del coordinator.digests[gone.digest_id]
            cache._open.clear()  # as many others would do
            gone_id = gone.digest_id
            del gone
            gc.collect()
            assert set(cache.here()) == {made.digest_id, gone_id} and not cache.disk_bytes
            (small / "others").unlink()
            async with asyncio.timeout(20):
                while cache.here() != [made.digest_id] or not cache.disk_bytes:
                    await asyncio.sleep(0.02)
            assert [path.stem for path in (small / "d").iterdir()] == [made.digest_id.hex()]
        finally:
            await cache.close()


@needs_disks
@on_loop
async def test_nobody_waits_for_a_disk_that_hangs_or_is_read_only(tmp_path: Path) -> None:
    made, other = digest(1), digest(2)
    coordinator = Coordinator(made)
    with ext4(tmp_path) as disk:

        async def use(cache: DigestCache) -> None:
            disk.freeze()
            try:
                async with asyncio.timeout(5):
                    assert (await cache.get(made.digest_id)).to_bytes() == made.to_bytes()
                    await kept(cache, other)
                    assert await cache.get(other.digest_id) is other
            finally:
                disk.thaw()

        await with_cache(disk.path / "d", coordinator, use)
        assert len(list((disk.path / "d").iterdir())) == 2
        disk.read_only()

        async def drop(cache: DigestCache) -> None:
            await cache.drop(made.digest_id)
            assert (await cache.get(made.digest_id)).to_bytes() == made.to_bytes()

        await with_cache(disk.path / "d", coordinator, drop)


@pytest.mark.slow
def test_a_digest_whose_file_is_cut_off_while_it_is_open_goes_on(tmp_path: Path) -> None:
    """In a process of its own: a mapping of it would end that with SIGBUS."""
    path = tmp_path / "a.tfqd"
    digest(1, 50_000).save(path)
    script = (
        "import os, sys; from tfquiver.digests.digest import Digest\n"
        "opened = Digest.open(sys.argv[1]); before = opened.shard(49_999).hash\n"
        "os.truncate(sys.argv[1], 100)\n"
        "opened.verify_ids(); assert opened.shard(49_999).hash == before\n"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_a_kill_left_half_written_goes_and_links_are_not_followed(tmp_path: Path) -> None:
    left, mine = tmp_path / f".a.tfqd.{16 * 'f'}.tmp", tmp_path / ".mine.tmp"
    left.write_bytes(b"half")
    mine.write_bytes(b"not ours")
    durable.remove_left_overs(tmp_path, but="a.tfqd")
    assert left.exists(), "somebody else may be writing it"
    durable.remove_left_overs(tmp_path, but="b.tfqd")
    assert not left.exists()
    assert mine.exists()
    target = tmp_path / "target"
    target.write_bytes(b"keep")
    (tmp_path / "link").symlink_to(target)
    durable.write(tmp_path / "link", [b"new"])
    assert target.read_bytes() == b"keep"
    assert (tmp_path / "link").read_bytes() == b"new"
    assert (tmp_path / "link").stat().st_mode & 0o777 == 0o600
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(OSError) as caught:
        durable.lock_file(tmp_path / "lock")
    assert caught.value.errno == errno.ELOOP
    first = durable.lock_file(tmp_path / "real")
    second = durable.lock_file(tmp_path / "real")
    assert durable.try_lock(first)
    assert not durable.try_lock(second)
    os.close(first)
    assert durable.try_lock(second)
    os.close(second)


@on_loop
async def test_what_fails_when_nobody_waits_any_more_is_no_error_of_the_loop(tmp_path: Path) -> None:
    """A data set that is removed while nodes get its digest, and are told so before they have an answer."""
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    asked, removed, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fetch(digest_id: bytes) -> AsyncIterator[bytes]:
        asked.set()
        await removed.wait()
        answered.set()
        raise errors.NotFoundError(f"no {digest_id.hex()}")
        yield b""

    cache = DigestCache(tmp_path / "digests", fetch, 1 << 30, lambda size_bytes: None)
    await cache.start()
    try:
        waiting = asyncio.ensure_future(cache.get(bytes(32)))
        await asked.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        removed.set()
        await answered.wait()
        for _ in range(20):  # turns in which the task ends
            await asyncio.sleep(0)
        del waiting  # what it was cancelled in knows the task
        gc.collect()
        assert not told
    finally:
        await cache.close()


@on_loop
async def test_what_was_removed_while_it_was_registered_is_not_kept(tmp_path: Path) -> None:
    async def use(cache: DigestCache) -> None:
        async with cache.registering(made := digest(1)):
            assert made.digest_id in cache.here()
            await cache.drop(made.digest_id)
        assert not cache.here() and not cache._saves

    await with_cache(tmp_path / "d", Coordinator(), use)


@on_loop
async def test_who_has_registered_a_digest_finds_it_on_the_disk(tmp_path: Path) -> None:
    """It may be deleted as soon as that is told: a node that was killed meanwhile would not know what is to go."""

    async def use(cache: DigestCache) -> None:
        made = digest(1)
        await kept(cache, made)
        assert [path.name for path in (tmp_path / "d").iterdir()] == [f"{made.digest_id.hex()}.tfqd"]

    await with_cache(tmp_path / "d", Coordinator(), use)
