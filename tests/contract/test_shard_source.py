"""Where shards come from, with a real local store, or the GCS emulator that counts what leaves it."""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import os
import resource
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.gcs_emulator import gcs_emulator
from tests.support.store_node import StoreNode, build, is_shard, raw_of, write_files
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing import listing
from tfquiver.scanning import digest_build
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.disk import codec
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import SEALED_MEMORY
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.stores.gcs import GcsStore
from tfquiver.stores.local import LocalStore

POLICY = CutPolicy(4096, 16384, 65536)


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    return build(write_files(tmp_path / "data"))


async def read_all(node: StoreNode, digest: Digest, times: int = 1, owner: str | None = None) -> None:
    wanted = [index for index in range(digest.num_shards) for _ in range(times)]
    name = node.node_id if owner is None else owner
    ready = await asyncio.gather(*(node.source.get(digest, index, name) for index in wanted))
    good = [is_shard(shard, digest, index) for index, shard in zip(wanted, ready, strict=True)]
    assert all(good)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "raw", "zstd"])
@on_loop
async def test_four_readers_cost_one_fetch_and_later_ones_none(
    tmp_path: Path, digest: Digest, mode: codec.Mode
) -> None:
    async with StoreNode(tmp_path / "cache", mode=mode) as node:
        for _ in range(3):
            await read_all(node, digest, times=4)
        stats = node.source.stats()
        assert (stats.store_bytes, stats.store_requests) == (digest.size_bytes, digest.num_shards)
        assert (stats.misses, stats.hits) == (digest.num_shards, 11 * digest.num_shards)
        assert stats.entries == digest.num_shards
    async with StoreNode(tmp_path / "cache") as again:
        await read_all(again, digest)
        assert again.source.stats().store_requests == 0


@pytest.mark.slow
def test_each_byte_leaves_the_object_store_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "data")
    with gcs_emulator() as emulator:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator.address)
        store = GcsStore()
        for path in (tmp_path / "data").iterdir():
            store._client.bucket("bucket").blob(path.name).upload_from_filename(path)
        files = listing.expand("gs://bucket/*", lambda _: store)

        @on_loop
        async def scan_and_read() -> None:
            async with StoreNode(tmp_path / "cache", store_for=lambda _: store) as node:
                digest = await node.scan(files, POLICY)
                scanned = len(emulator.downloads)
                await read_all(node, digest, times=2)
                assert len(emulator.downloads) == scanned == 2 * len(files)  # the look at the first bytes, and the rest
                assert node.source.stats().store_bytes <= digest.size_bytes * 1.001
            async with StoreNode(tmp_path / "empty", store_for=lambda _: store) as node:
                await read_all(node, digest, times=2)
                assert node.source.stats().store_bytes == digest.size_bytes
                assert len(emulator.downloads) < scanned + digest.num_shards, "neighbours come in one request"

        scan_and_read()
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
@on_loop
async def test_a_compressed_file_is_read_once_for_all_its_shards(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    write_files(tmp_path / "data", files=2)
    for path in (tmp_path / "data").iterdir():
        path.write_bytes(compress(path.read_bytes()))
    digest = build(tmp_path / "data" / "*")
    stored_bytes = sum(path.stat().st_size for path in (tmp_path / "data").iterdir())
    async with StoreNode(tmp_path / "cache") as node:
        assert is_shard(await node.source.get(digest, digest.num_shards - 1, "node-a"), digest, digest.num_shards - 1)
        await read_all(node, digest, times=2)
        await read_all(node, digest)
        assert node.source.stats().store_bytes == stored_bytes
        assert len(node.disk) == digest.num_shards
    async with StoreNode(tmp_path / "gateway", quota_bytes=0, hot_bytes=0) as node:
        await read_all(node, digest, times=2)
        assert len(node.disk) == 0


@on_loop
async def test_a_damaged_compressed_file_fails_all_that_wait_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "0.tfrecord"
    write_files(tmp_path / "data", files=1)
    path.write_bytes(gzip.compress(path.read_bytes()))
    digest = build(path)
    info = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))  # the generation does not give it away
    async with StoreNode(tmp_path / "cache") as node:
        got = await asyncio.gather(
            *(node.source.get(digest, index, "node-a") for index in range(digest.num_shards)), return_exceptions=True
        )
        failed = [error for error in got if isinstance(error, BaseException)]
        assert failed
        assert all(isinstance(error, errors.DataLossError | errors.StaleDigestError) for error in failed)
        assert all("0.tfrecord" in str(error) for error in failed)
        for shard in got:
            if not isinstance(shard, BaseException):
                shard.close()


@on_loop
async def test_other_bytes_under_the_same_generation_are_named_and_the_rest_goes_on(
    tmp_path: Path, digest: Digest
) -> None:
    ref = digest.shard(1)
    path = Path(ref.file.uri.removeprefix("file://"))
    info = path.stat()
    with path.open("r+b") as file:
        file.seek(ref.offset + 20)
        file.write(b"changed")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    async with StoreNode(tmp_path / "cache") as node:
        with pytest.raises(errors.StaleDigestError, match=f"{path} at {ref.offset}.*tfquiver digest build"):
            await node.source.get(digest, 1, "node-a")
        for index in (0, 2):
            assert is_shard(await node.source.get(digest, index, "node-a"), digest, index)
        assert ref.hash not in node.disk


class Damaging(LocalStore):
    """Flips a bit in what it reads until `until`, as a proxy or a network card gone wrong does."""

    remote = True

    def __init__(self, for_s: float) -> None:
        super().__init__()
        self._until = time.monotonic() + for_s
        self.damaged = 0

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        data = super().read(uri, offset, length, generation, deadline_s)
        if time.monotonic() > self._until:
            return data
        self.damaged += 1
        return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


@pytest.mark.parametrize("compressed", [False, True])
@on_loop
async def test_bodies_that_are_damaged_for_a_while_are_waited_out(tmp_path: Path, compressed: bool) -> None:
    pattern = write_files(tmp_path / "data", files=1)
    path = tmp_path / "data" / "0.tfrecord"
    if compressed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    digest = build(pattern)
    store = Damaging(1.0)
    async with StoreNode(tmp_path / "cache", store_for=lambda _: store) as node:
        for index in range(2):
            assert is_shard(await node.source.get(digest, index, "node-a"), digest, index)
    assert 2 <= store.damaged <= 12  # tried again, but with pauses


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"other")])
@on_loop
async def test_an_object_that_changed_is_named_and_what_is_kept_of_it_still_served(
    tmp_path: Path, digest: Digest, change: Callable[[Path], None]
) -> None:
    async with StoreNode(tmp_path / "cache") as node:
        (await node.source.get(digest, 0, "node-a")).close()
        change(Path(digest.shard(0).file.uri.removeprefix("file://")))
        assert is_shard(await node.source.get(digest, 0, "node-a"), digest, 0)
        with pytest.raises(errors.StaleDigestError, match=digest.shard(1).file.uri):
            await node.source.get(digest, 1, "node-a")


@pytest.mark.parametrize("quota_bytes", [0, 4096, 8000, 60_000])
@on_loop
async def test_what_does_not_fit_is_served_from_sealed_memory(tmp_path: Path, digest: Digest, quota_bytes: int) -> None:
    async with StoreNode(tmp_path / "cache", quota_bytes=quota_bytes, hot_bytes=0) as node:
        for _ in range(2):
            await read_all(node, digest)
        assert node.disk.used_bytes <= quota_bytes
        assert node.source.stats().refused_inserts > 0
        misses = node.source.stats().misses
        assert misses == 2 * digest.num_shards - len(node.disk)


@on_loop
async def test_shards_of_nobody_are_kept_by_nobody(tmp_path: Path, digest: Digest) -> None:
    async with StoreNode(tmp_path / "cache") as node:
        await read_all(node, digest, owner="")
        await read_all(node, digest, owner="a node that has left")
        assert len(node.disk) == 0


@on_loop
async def test_a_reader_cannot_change_what_it_is_given(tmp_path: Path, digest: Digest) -> None:
    async with StoreNode(tmp_path / "cache", mode="zstd") as node:
        for index in range(digest.num_shards):
            ready = await node.source.get(digest, index, "node-a")
            if ready.kind == SEALED_MEMORY:
                with pytest.raises(PermissionError):
                    os.pwrite(ready.fd, b"x", 0)
                with pytest.raises(PermissionError):
                    os.ftruncate(ready.fd, 0)
                with pytest.raises(PermissionError):
                    fcntl.fcntl(ready.fd, fcntl.F_ADD_SEALS, 0)
            else:
                with pytest.raises(OSError, match="Bad file descriptor"):
                    os.pwrite(ready.fd, b"x", ready.offset)
            ready.close()


@pytest.mark.parametrize("mode", ["raw", "zstd"])
@on_loop
async def test_damaged_entries_are_fetched_again(tmp_path: Path, digest: Digest, mode: codec.Mode) -> None:
    async with StoreNode(tmp_path / "cache", mode=mode, hot_bytes=0) as node:
        await read_all(node, digest)
        paths = [path for path in (tmp_path / "cache" / "objects").rglob("*") if path.is_file()]
        os.truncate(paths[0], 4100)
        paths[1].unlink()
        with paths[2].open("r+b") as file:
            file.write(b"????")
        before = node.source.stats().store_requests
        await read_all(node, digest)
        assert node.source.stats().store_requests == before + 3
        assert node.source.stats().corrupt_entries == 3
        await read_all(node, digest)
        assert node.source.stats().store_requests == before + 3


@on_loop
async def test_a_reader_that_stops_waiting_leaves_the_fetch_to_the_others(tmp_path: Path, digest: Digest) -> None:
    async with StoreNode(tmp_path / "cache") as node:
        impatient = [asyncio.ensure_future(node.source.get(digest, 0, "node-a")) for _ in range(3)]
        patient = asyncio.ensure_future(node.source.get(digest, 0, "node-a"))
        await asyncio.sleep(0)
        for task in impatient:
            task.cancel()
        assert is_shard(await patient, digest, 0)
        assert node.source.stats().store_requests == 1


@on_loop
async def test_stopping_releases_those_who_wait_for_a_limit(tmp_path: Path, digest: Digest) -> None:
    async with StoreNode(tmp_path / "cache", limit_bytes_per_s=100_000) as node:
        waiting = [asyncio.ensure_future(node.source.get(digest, i, "node-a")) for i in range(digest.num_shards)]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        started_s = time.monotonic()
    assert time.monotonic() - started_s < 5
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        if isinstance(result, BaseException):
            assert isinstance(result, errors.CancelledError_ | asyncio.CancelledError)
        else:
            raw_of(result)
    assert done


@on_loop
async def test_a_scan_of_a_damaged_file_names_it_and_stops(tmp_path: Path) -> None:
    write_files(tmp_path / "data", files=2)
    path = tmp_path / "data" / "1.tfrecord"
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    files = listing.expand(str(tmp_path / "data" / "*"))
    async with StoreNode(tmp_path / "cache") as node:
        with pytest.raises(errors.DataLossError, match=r"1\.tfrecord"):
            await node.scan(files, POLICY)


@on_loop
async def test_a_scan_gives_the_digest_that_the_command_line_gives(tmp_path: Path, digest: Digest) -> None:
    gone = FileEntry(digest.files[0].uri + ".gone", 100, "1")
    async with StoreNode(tmp_path / "cache") as node:
        scanned = await node.scan(digest.files, POLICY)
        assert scanned.to_bytes() == digest.to_bytes()
        before = node.disk.used_bytes
        again = await node.scan(digest.files, POLICY)
        assert again.digest_id == digest_build.build(digest.files, POLICY).digest_id
        assert node.disk.used_bytes == before
        with pytest.raises(errors.TfquiverError, match="gone"):
            await node.scan([*digest.files, gone], POLICY)


@pytest.mark.slow
@on_loop
async def test_a_full_owner_keeps_few_shards_for_a_slow_stand_in(tmp_path: Path) -> None:
    """Readers do not wait for the handing over: what they bring must not pile up in memory."""
    digest = build(write_files(tmp_path / "data", files=6, records_each=600), CutPolicy(1000, 4000, 8000))
    let_go = threading.Event()
    handed = []

    def slow(shard: VerifiedShard) -> bool:
        handed.append(shard.hash)
        return let_go.wait(30)

    async with StoreNode(tmp_path / "cache", quota_bytes=8192) as node:
        node.source._handing_over._stands_in = slow
        node.disk.may_stand_in = lambda hash: True  # type: ignore[method-assign]
        shards = min(digest.num_shards, 150)
        for index in range(shards):
            assert is_shard(await node.source.get(digest, index, "node-a"), digest, index)
        assert shards > 100
        assert 0 < len(node.source._handing_over) <= 32
        let_go.set()
        while node.source._handing_over:
            await asyncio.sleep(0.01)


@on_loop
async def test_reads_that_come_in_pieces_are_read_on(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of more than 2 GiB do."""
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: whole(fd, min(length, 5000), at))
    assert int(digest.lengths.max()) > 10_000
    async with StoreNode(tmp_path / "cache") as node:
        for index in range(digest.num_shards):
            (await node.source.get(digest, index, "")).close()  # in memory only
            await node.source.load(digest, index)
        assert len(node.disk) == digest.num_shards
        monkeypatch.undo()
        node.source._hot.close()
        await read_all(node, digest)
        assert node.source.stats().store_requests == digest.num_shards


@on_loop
async def test_out_of_descriptors_the_hot_set_gives_way(tmp_path: Path, digest: Digest) -> None:
    async with StoreNode(tmp_path / "cache", mode="raw") as node:
        (await node.source.get(digest, 0, node.node_id)).close()  # on the disk
        for index in range(1, digest.num_shards):
            (await node.source.get(digest, index, "")).close()  # in memory, each with a descriptor
        kept = len(node.source._hot)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(shard.fd for shard in node.source._hot._shards.values())
        fillers = [os.dup(0)]
        while fillers[-1] < highest:
            fillers.append(os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 1, hard))  # none is left
        try:
            on_disk = await node.source.get(digest, 0, node.node_id)
            in_memory = await node.source.get(digest, digest.num_shards - 1, "")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for filler in fillers:
                os.close(filler)
        assert is_shard(on_disk, digest, 0)
        assert is_shard(in_memory, digest, digest.num_shards - 1)
        assert len(node.source._hot) <= kept // 2
