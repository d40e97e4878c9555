"""Misses of a remote store: neighbours in one request, and what becomes of them when it goes wrong half-way."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import urllib3.response

from tests.support import records
from tests.support.aio import on_loop
from tests.support.gcs_emulator import Fault, GcsEmulator, answer, gcs_emulator, status
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.listing import listing
from tfquiver.scanning import digest_build
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.reading_the_object_store import range_reads
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.service.node.reading_the_object_store.one_range import Asked
from tfquiver.service.node.reading_the_object_store.origins import MOST_IDLE
from tfquiver.service.node.reading_the_object_store.parallelism import FIRST
from tfquiver.service.node.reading_the_object_store.range_plan import RangePlan
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Fetcher
from tfquiver.stores.gcs import GcsStore

RECORDS, RECORD_BYTES = 12, 50_000
DATA = records.stream(bytes([number]) * RECORD_BYTES for number in range(RECORDS))


@dataclass
class Place:
    emulator: GcsEmulator
    digest: Digest
    fetcher: Fetcher
    store: GcsStore

    def shards(self, *indexes: int) -> list[asyncio.Task[VerifiedShard | None]]:
        return [
            asyncio.create_task(self.fetcher.fetch(self.digest, self.digest.shard(index), keep=False))
            for index in indexes
        ]

    def is_right(self, index: int, shard: VerifiedShard | None) -> bool:
        ref = self.digest.shard(index)
        return shard is not None and shard.raw == DATA[ref.offset : ref.offset + ref.length_bytes]

    def span(self, first: int, last: int) -> str:
        """As a request names it."""
        ref, end = self.digest.shard(first), self.digest.shard(last)
        return f"bytes={ref.offset}-{end.offset + end.length_bytes - 1}"

    @property
    def spans(self) -> list[str]:
        return [asked.rpartition(" ")[2] for asked in self.emulator.downloads]


@asynccontextmanager
async def place(monkeypatch: pytest.MonkeyPatch, deadline_s: float = 20.0) -> AsyncIterator[Place]:
    # Neighbours that are asked for in one turn of the loop find one another, however slow the machine is.
    monkeypatch.setattr(range_reads, "RangePlan", functools.partial(RangePlan, gather_s=0.5))
    with gcs_emulator() as emulator:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator.address)
        store = GcsStore()
        store._client.bucket("bucket").blob("f").upload_from_string(DATA)
        files = listing.expand("gs://bucket/f", lambda _: store)
        digest = digest_build.build(files, CutPolicy(1, 1, 1), store_for=lambda _: store)
        assert digest.num_shards == RECORDS
        emulator.downloads.clear()
        fetcher = Fetcher(Meter(), lambda shard: None, deadline_s=deadline_s, store_for=lambda uri, _: store)
        try:
            yield Place(emulator, digest, fetcher, store)
        finally:
            await fetcher.close()
            store.close()


@on_loop
async def test_a_bucket_of_which_a_shard_is_about_to_be_read_alone_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a read begins at the loop's next turn; whoever asks for another bucket before that must not end this one."""
    async with place(monkeypatch) as its:
        ranges, ref = its.fetcher._ranges, its.digest.shard(0)
        bucket = ranges._places.at("gs://bucket")
        asked = Asked(its.digest, ref, asyncio.get_running_loop().create_future())
        ranges._read_alone(bucket, asked)
        for number in range(2 * MOST_IDLE):
            ranges._places.at(f"gs://{number}")
        assert its.is_right(0, await asked.outcome)
        assert bucket in list(ranges._places)
        await asyncio.sleep(0)
        assert bucket.idle


def body(change: Callable[[bytes], bytes], claimed: bool = True) -> Fault:
    """What was asked for, changed; `claimed`: it says that it is as long as it should be, and the connection ends."""

    def fault(handler: object) -> bool:
        first, last = handler.headers["Range"].removeprefix("bytes=").split("-")  # type: ignore[attr-defined]
        right = DATA[int(first) : int(last) + 1]
        answer(handler, 206, change(right), claimed_bytes=len(right) if claimed else None)  # type: ignore[arg-type]
        return True

    return fault


@on_loop
async def test_neighbours_are_one_request_and_others_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place(monkeypatch) as here:
        wanted = [4, 2, 3, 5, 8, 10, 9]
        found = await asyncio.gather(*here.shards(*wanted))
        assert all(map(here.is_right, wanted, found))
        assert sorted(here.spans) == sorted([here.span(2, 5), here.span(8, 10)])
        assert here.fetcher.meter.store_requests == 2
        assert here.fetcher.meter.store_bytes == sum(here.digest.shard(index).length_bytes for index in wanted)


@on_loop
async def test_what_breaks_off_goes_on_with_the_shard_that_did_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place(monkeypatch) as here:
        shard_bytes = here.digest.shard(0).length_bytes
        here.emulator.faults += [body(lambda right: right[: 3 * shard_bytes + 100])]
        found = await asyncio.gather(*here.shards(*range(6)))
        assert all(map(here.is_right, range(6), found))
        assert here.spans == [here.span(0, 5), here.span(3, 5)]


@on_loop
async def test_an_older_urllib3_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `requests` takes it: from 1.26 on."""
    for kind in (urllib3.response.HTTPResponse, urllib3.response.BaseHTTPResponse):
        monkeypatch.delattr(kind, "read1")
    async with place(monkeypatch) as here:
        here.emulator.faults += [body(lambda right: right[:-100])]
        found = await asyncio.gather(*here.shards(*range(6)))
        assert all(map(here.is_right, range(6), found))


@on_loop
async def test_of_wrong_bytes_only_their_shard_suffers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place(monkeypatch, deadline_s=1.0) as here:
        at = here.digest.shard(2).offset + 100

        def spoilt(right: bytes) -> bytes:
            return right[:at] + b"\xff" + right[at + 1 :] if len(right) > at else b"\xff" + right[1:]

        here.emulator.faults += [body(spoilt)] * 1000
        outcomes = await asyncio.gather(*here.shards(*range(6)), return_exceptions=True)
        trouble = outcomes.pop(2)
        assert all(here.is_right(index, found) for index, found in zip([0, 1, 3, 4, 5], outcomes, strict=True))  # type: ignore[arg-type]
        assert isinstance(trouble, errors.StaleDigestError)
        assert "gs://bucket/f at" in str(trouble)
        assert set(here.spans[1:]) == {here.span(2, 2)}, "it alone is read again"


@on_loop
async def test_a_body_that_is_too_short_and_says_so_brings_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place(monkeypatch) as here:
        here.emulator.faults += [body(lambda right: right[:-1], claimed=False)]
        found = await asyncio.gather(*here.shards(0, 1, 2))
        assert all(map(here.is_right, range(3), found))
        assert here.spans == [here.span(0, 2)] * 2


@pytest.mark.parametrize("code", [429, 503])
@on_loop
async def test_a_store_that_asks_for_less_is_asked_less(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    async with place(monkeypatch) as here:
        here.emulator.faults += [status(code)]
        found = await asyncio.gather(*here.shards(0, 1))
        assert all(map(here.is_right, range(2), found))
        (bucket,) = here.fetcher._ranges._places
        assert bucket.parallelism.limit < FIRST


@on_loop
async def test_an_object_that_was_replaced_is_stale_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place(monkeypatch) as here:
        here.store._client.bucket("bucket").blob("f").upload_from_string(b"another")
        outcomes = await asyncio.gather(*here.shards(0, 1, 2), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [errors.StaleDigestError] * 3


@on_loop
async def test_a_late_request_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place(monkeypatch) as here:
        assert here.is_right(11, await here.shards(11)[0])
        (bucket,) = here.fetcher._ranges._places
        for _ in range(64):
            bucket.hedges.came(0.01)
        for _ in range(100):
            bucket.hedges.began()
        here.emulator.downloads.clear()
        waits = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hangs(handler: object) -> bool:
            asyncio.run_coroutine_threadsafe(waits.wait(), loop).result(20)
            return body(lambda right: right)(handler)  # type: ignore[arg-type]

        here.emulator.faults += [hangs]
        started_s = time.monotonic()
        found = await asyncio.gather(*here.shards(0, 1, 2))
        assert time.monotonic() - started_s < 15
        assert all(map(here.is_right, range(3), found))
        assert here.spans == [here.span(0, 2)] * 2
        waits.set()


@on_loop
async def test_a_node_that_stops_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place(monkeypatch, deadline_s=1.0) as here:
        release = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hangs(handler: object) -> bool:
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(20)
            return False

        here.emulator.faults += [hangs] * 5
        tasks = here.shards(0, 1, 5)
        while not here.emulator.downloads:
            await asyncio.sleep(0.01)
        await here.fetcher.close()
        release.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, errors.CancelledError_ | errors.UnavailableError) for outcome in outcomes)
        with pytest.raises(errors.CancelledError_):
            await here.shards(0)[0]


@on_loop
async def test_reads_alone_and_second_ones_count_against_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place(monkeypatch) as here:
        assert here.is_right(11, await here.shards(11)[0])
        (bucket,) = here.fetcher._ranges._places
        bucket.parallelism.limit = 2
        under_way = most = 0

        def counted(handler: object) -> bool:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            time.sleep(0.05)  # so that those which are under way together are seen together
            body(lambda right: right)(handler)  # type: ignore[arg-type]
            under_way -= 1
            return True

        here.emulator.weather = lambda: counted
        here.emulator.faults += [body(lambda right: b"\xff" * len(right))]
        found = await asyncio.gather(*here.shards(*range(8)))
        assert all(map(here.is_right, range(8), found))
        assert len(here.spans) == 2 + 8, "each is read alone"
        assert most == 2
        bucket.parallelism.limit = 1
        for _ in range(64):
            bucket.hedges.came(0.01)
        for _ in range(100):
            bucket.hedges.began()
        here.emulator.downloads.clear()

        def late(handler: object) -> bool:
            time.sleep(1.0)  # twenty times as long as is late
            return counted(handler)

        here.emulator.faults += [late]
        assert here.is_right(0, await here.shards(0)[0])
        assert len(here.spans) == 1, "there is no place for a second one"
