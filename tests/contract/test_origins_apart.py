"""Stores that hang, and others that answer: nobody waits for a place that a read of another bucket or mount holds."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support import records
from tests.support.aio import on_loop
from tests.support.disks import dead
from tests.support.gcs_emulator import GcsEmulator, gcs_emulator
from tests.support.hanging_disk import hanging_disk
from tests.support.privileges import needs_dead_mounts, needs_fuse
from tests.support.store_node import build, write_files
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.listing import listing
from tfquiver.scanning import digest_build
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.reading_the_object_store.client_stores import ClientStores
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.service.node.reading_the_object_store.origins import origin_of_file
from tfquiver.service.node.reading_the_object_store.parallelism import FIRST
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Fetcher
from tfquiver.stores.credentials.resolved import Access
from tfquiver.stores.gcs import GcsStore
from tfquiver.stores.hanging_file_systems.mounts import Mounts

DEAD, GOOD, RECORDS = ["dead-0", "dead-1", "dead-2", "dead-3", "dead-4"], "good", 40
DATA = records.stream(bytes([number]) * 2_000 for number in range(RECORDS))
SOON_S, DEADLINE_S = 8.0, 30.0
ONE = CutPolicy(1, 1, 1)


class Stores:
    """One server; downloads from `dead-*` get no answer while `hang` is set."""

    def __init__(self, emulator: GcsEmulator, fetcher: Fetcher, store: GcsStore) -> None:
        self.emulator, self.fetcher, self.store = emulator, fetcher, store
        self.let_go = threading.Event()
        emulator.weather = lambda: self._fault

    def _fault(self, handler: object) -> bool:
        if "/dead-" in handler.path:  # type: ignore[attr-defined]
            self.let_go.wait(60)
        return False

    def put(self, bucket: str, name: str, data: bytes) -> Digest:
        """The data set of that object, a record a shard."""
        if bucket not in self.emulator.storage.buckets:
            self.emulator.storage.create_bucket(bucket, {"name": bucket})
        self.store._client.bucket(bucket).blob(name).upload_from_string(data)
        files = listing.expand(f"gs://{bucket}/{name}", lambda _: self.store)
        self.let_go.set()
        digest = digest_build.build(files, ONE, store_for=lambda _: self.store)
        self.let_go.clear()
        return digest

    def fetch(self, digest: Digest, index: int) -> asyncio.Task[VerifiedShard | None]:
        return asyncio.create_task(self.fetcher.fetch(digest, digest.shard(index), keep=False))


@asynccontextmanager
async def stores(monkeypatch: pytest.MonkeyPatch, deadline_s: float = DEADLINE_S) -> AsyncIterator[Stores]:
    with gcs_emulator() as emulator:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator.address)
        store = GcsStore()
        fetcher = Fetcher(Meter(), lambda shard: None, deadline_s=deadline_s, store_for=lambda uri, _: store)
        here = Stores(emulator, fetcher, store)
        try:
            yield here
        finally:
            here.let_go.set()
            await fetcher.close()
            store.close()


async def until_downloads(emulator: GcsEmulator, count: int) -> None:
    emulator.downloads.clear()
    async with asyncio.timeout(20):
        while len(emulator.downloads) < count:
            await asyncio.sleep(0.01)


async def ended(tasks: list[asyncio.Task[VerifiedShard | None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "stored", "dead", "shards", "under_way"),
    [
        # Every other shard: each a request of its own.
        ("f", DATA, [(bucket, "f") for bucket in DEAD], range(0, RECORDS, 2), 64),
        ("f.gz", gzip.compress(DATA), [("dead-0", f"{number}.gz") for number in range(6)], [0], 4),
    ],
    ids=["ranges of buckets", "passes over files of a bucket"],
)
@on_loop
async def test_a_bucket_that_hangs_keeps_nobody_from_another(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    stored: bytes,
    dead: list[tuple[str, str]],
    shards: Sequence[int],
    under_way: int,
) -> None:
    async with stores(monkeypatch) as here:
        digests = [here.put(bucket, file, stored) for bucket, file in dead]
        good = here.put(GOOD, name, stored)
        waiting = [here.fetch(digest, index) for digest in digests for index in shards]
        await until_downloads(here.emulator, under_way)
        async with asyncio.timeout(SOON_S):
            shard = await here.fetch(good, 3)
        assert shard is not None
        assert shard.hash == good.shard(3).hash
        here.let_go.set()
        await ended(waiting)


@pytest.mark.slow
@on_loop
async def test_who_waits_behind_reads_that_bring_nothing_is_told_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wants in the plan of a bucket, and passes over its compressed files: after the deadline of one read."""
    monkeypatch.setattr(
        "tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher._GRACE_S", -DEADLINE_S + 0.5
    )
    async with stores(monkeypatch) as here:
        plain = here.put("dead-0", "f", DATA)
        packed = [here.put("dead-0", f"{number}.gz", gzip.compress(DATA)) for number in range(6)]
        waiting = [here.fetch(plain, index) for index in range(0, RECORDS, 2)]
        waiting += [here.fetch(digest, 0) for digest in packed]
        async with asyncio.timeout(SOON_S):
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            while len(done) < (RECORDS // 2 - FIRST) + 2:
                done, _ = await asyncio.wait(waiting, timeout=0.05)
        said = sorted(str(task.exception()) for task in done)
        assert all(isinstance(task.exception(), errors.UnavailableError) for task in done)
        assert sum(f"of gs://dead-0 {FIRST} reads are under way" in one for one in said) == RECORDS // 2 - FIRST
        assert sum("of gs://dead-0 4 reads are under way" in one for one in said) == 2
        assert all("0 more hang" in one for one in said)
        here.let_go.set()
        await ended(waiting)


@on_loop
async def test_a_bucket_of_the_same_name_at_another_endpoint_is_another_one() -> None:
    """With places, and a pace, of its own."""
    with gcs_emulator() as dead_store, gcs_emulator() as good_store:
        client_stores, let_go = ClientStores(), threading.Event()
        digests = []
        for emulator in (dead_store, good_store):
            way = Access("gs", json.dumps({"endpoint": emulator.address}))
            store = GcsStore(way.fields)
            data = DATA + records.stream([emulator.address.encode()])
            store._client.bucket("bucket").blob("f").upload_from_string(data)
            digests.append(_built("gs://bucket/f", store))
            store.close()
            client_stores.use(emulator.address, [way], [digests[-1].digest_id], 60)
        dead_store.weather = lambda: lambda _: not let_go.wait(60)
        fetcher = Fetcher(
            Meter(), lambda shard: None, deadline_s=DEADLINE_S, store_for=client_stores.of_dataset,
            store_place=client_stores.place_of,
        )  # fmt: skip
        try:
            ofs = [digests[0].shard(index) for index in range(0, RECORDS, 2)]
            waiting = [asyncio.create_task(fetcher.fetch(digests[0], ref, keep=False)) for ref in ofs]
            await until_downloads(dead_store, FIRST)
            async with asyncio.timeout(SOON_S):
                shard = await fetcher.fetch(digests[1], digests[1].shard(3), keep=False)
            assert shard is not None
            assert len(dead_store.downloads) == FIRST
            let_go.set()
            await ended(waiting)
        finally:
            let_go.set()
            await fetcher.close()
            await asyncio.to_thread(client_stores.close)


def _built(pattern: str, store: GcsStore) -> Digest:
    return digest_build.build(listing.expand(pattern, lambda _: store), ONE, store_for=lambda _: store)


@needs_fuse
@on_loop
async def test_a_mount_that_hangs_keeps_nobody_from_another(tmp_path: Path) -> None:
    good = build(write_files(tmp_path / "good", files=1), ONE)
    fetcher = Fetcher(Meter(), lambda shard: None, deadline_s=DEADLINE_S)
    with hanging_disk(tmp_path) as disk:
        (tmp_path / "link").symlink_to(disk.path)  # as data directories often are
        digest = build(write_files(tmp_path / "link" / "." / "data", files=30, records_each=2), ONE)
        disk.hang()
        waiting = [
            asyncio.create_task(fetcher.fetch(digest, ref, False))
            for ref in (digest.shard(digest.file_shards(at).start) for at in range(30))
        ]
        async with asyncio.timeout(SOON_S):
            while threads("store call") < 16:
                await asyncio.sleep(0.01)
            shard = await fetcher.fetch(good, good.shard(0), False)
        assert shard is not None
        assert shard.hash == good.shard(0).hash
        disk.go_on()
        await ended(waiting)
        await fetcher.close()


@pytest.mark.slow
@needs_dead_mounts
@on_loop
async def test_a_dead_mount_holds_one_thread_and_no_executor(tmp_path: Path) -> None:
    """Whatever is asked of it: directories without end, for as long as it is dead."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    good = build(write_files(tmp_path / "good", files=1), ONE)
    fetcher = Fetcher(Meter(), lambda shard: None, deadline_s=DEADLINE_S)
    with dead(tmp_path / "mount") as mount:
        (tmp_path / "link").symlink_to(mount)
        now_s = 0.0
        mounts = Mounts(clock=lambda: now_s)
        for _ in range(3):
            asked = [origin_of_file(f"{tmp_path}/link/{number}/file", mounts) for number in range(50)]
            async with asyncio.timeout(SOON_S):
                names = await asyncio.gather(*asked, origin_of_file(f"{tmp_path}/good/file", mounts))
                shard = await fetcher.fetch(good, good.shard(0), False)
                await asyncio.to_thread(lambda: None)
            assert set(names[:-1]) == {str(mount)}
            assert names[-1] != str(mount)
            assert shard is not None
            now_s += 61
        async with asyncio.timeout(SOON_S):
            while threads("look up a mount") > 1:  # those that were told not to enter end
                await asyncio.sleep(0.01)
        assert threads("look up a mount") == 1
    await fetcher.close()


def threads(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())
