"""Passes over compressed files: those that hang give up their places, those that are long do not."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import build, write_files
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.scanning import streams
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.reading_the_object_store.bounded_reads import BoundedReads
from tfquiver.service.node.reading_the_object_store.metered_store import Meter, MeteredStore
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.file_passes import FilePasses, _Pass
from tfquiver.stores.attempts import Attempts
from tfquiver.stores.local import LocalStore

LIMIT_S = 0.3


class Slow(LocalStore):
    """`before`: called before each read of a file."""

    def __init__(self, before: Callable[[str], object]) -> None:
        super().__init__()
        self._before = before

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        self._before(uri)
        return super().read(uri, offset, length, generation, deadline_s)


def compressed(directory: Path, files: int) -> Digest:
    write_files(directory, files=files)
    for path in directory.iterdir():
        path.write_bytes(gzip.compress(path.read_bytes()))
    return build(directory / "*", CutPolicy(4096, 16384, 65536))


def passes(before: Callable[[str], object]) -> FilePasses:
    store = MeteredStore(Slow(before), Meter())

    def reads(origin: str) -> BoundedReads:
        return BoundedReads(origin, parallel=2, most_hung=8, limit_s=LIMIT_S, wait_s=10)

    async def origin(uri: str, digest_id: bytes) -> str:
        return "one"

    return FilePasses(lambda uri, digest_id: store, lambda shard: None, Attempts(), 10.0, reads, origin)


@on_loop
async def test_passes_that_hang_give_up_their_places(tmp_path: Path) -> None:
    """Four of them used to end all others, for ever; and who waited for them waited for ever."""
    digest, let_go = compressed(tmp_path / "data", files=5), threading.Event()
    good = digest.files[4].uri
    made = passes(lambda uri: uri == good or let_go.wait(30))
    first = [digest.shard(digest.file_shards(at).start) for at in range(5)]
    async with asyncio.timeout(20):
        waiting = [asyncio.ensure_future(made.fetch(digest, ref, True)) for ref in first]
        for task in waiting[:4]:
            with pytest.raises(errors.UnavailableError, match="has not come back"):
                await task
        shard = await waiting[4]
        assert shard is not None
        assert shard.hash == first[4].hash
        let_go.set()
        again = await made.fetch(digest, first[0], True)  # by another pass; the one before comes back to nobody
        assert again is not None
        assert again.hash == first[0].hash
        await made.close()


@on_loop
async def test_a_long_pass_is_no_hung_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CHUNK_BYTES", 4096)
    digest, quarter = compressed(tmp_path / "data", files=1), threading.Event()
    reads = 0

    def slow(_: str) -> None:
        nonlocal reads
        reads += 1
        quarter.wait(LIMIT_S / 4)

    made = passes(slow)
    last = digest.shard(digest.num_shards - 1)
    async with asyncio.timeout(20):
        shard = await made.fetch(digest, last, True)
    assert shard is not None
    assert shard.hash == last.hash
    assert reads > 8  # so it took longer than the limit
    await made.close()


def test_a_pass_that_was_given_up_places_nothing_any_more(tmp_path: Path) -> None:
    """Nobody knows of it: what is given up while it hangs would stand again when it comes back."""
    digest = compressed(tmp_path / "data", files=1)
    placed: list[VerifiedShard] = []
    raw = gzip.decompress((tmp_path / "data" / "0.tfrecord").read_bytes())[: int(digest.lengths[0])]
    shard = VerifiedShard.check(digest.shard(0).hash, raw, "here")
    current = _Pass(digest, 0, keep=True, next_index=0)
    current.place(shard, placed.append)
    current.stop = True
    current.place(shard, placed.append)
    assert placed == [shard]
