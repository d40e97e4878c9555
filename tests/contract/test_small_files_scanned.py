"""Small files are waited for, many at a time; large ones take memory, a few at a time."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing import listing
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.dataset_scans.file_tables import FileTables
from tfquiver.service.node.dataset_scans.scan import Scanner
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.stores.local import LocalStore

TERMS = ListingTerms(CutPolicy(format="bytes"))
AT_ONCE, SMALL_AT_ONCE = 4, 16


class Slow(LocalStore):
    """Answers once so many have asked at the same time."""

    def __init__(self, at_once: int) -> None:
        super().__init__()
        self._at_once, self._enough, self._lock = at_once, threading.Event(), threading.Lock()
        self.asking = self.most = 0

    def read(self, uri: str, offset: int, length: int, generation: str = "", deadline_s: float = 60.0) -> bytes:
        with self._lock:
            self.asking += 1
            self.most = max(self.most, self.asking)
            if self.asking == self._at_once:
                self._enough.set()
        try:
            assert self._enough.wait(60), self.most
            return super().read(uri, offset, length, generation, deadline_s)
        finally:
            with self._lock:
                self.asking -= 1


class Held(LocalStore):
    """Answers nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go, self.enough = threading.Event(), threading.Event()
        self.asked: list[tuple[str, bool]] = []  # for what, and whether that was afterwards

    def read(self, uri: str, offset: int, length: int, generation: str = "", deadline_s: float = 60.0) -> bytes:
        self.asked.append((uri, self.let_go.is_set()))
        if len(self.asked) >= SMALL_AT_ONCE:
            self.enough.set()
        assert self.let_go.wait(60)
        return super().read(uri, offset, length, generation, deadline_s)


def written(root: Path, files: int, size_bytes: int) -> Path:
    for number in range(files):
        (root / f"{number:05}").write_bytes(b"%08d" % number + bytes(size_bytes - 8))
    return root


@pytest.fixture
def placed() -> list[bytes]:
    return []


async def scanned(
    root: Path, store: LocalStore, placed: list[bytes], tables: FileTables | None = None, at_once: int = 1
) -> int:
    """Shards of the digest, which so many ask for."""

    def place(shard: VerifiedShard) -> None:
        placed.append(shard.hash)

    scanner = Scanner(Meter(), place, tables, parallel_files=AT_ONCE)
    told: list[tuple[int, int, str]] = []
    try:
        files = listing.expand(f"{root}/*")
        others = [
            asyncio.create_task(scanner.scan("images", files, TERMS, lambda *_: None, lambda _: store))
            for _ in range(at_once - 1)
        ]
        digest = await scanner.scan("images", files, TERMS, lambda *how_far: told.append(how_far), lambda _: store)
        assert {one.digest_id for one in await asyncio.gather(*others)} <= {digest.digest_id}
    finally:
        await scanner.close()
    assert [file.uri for file in digest.files] == [file.uri for file in files], "in order"
    assert told[-1] == (sum(file.size_bytes for file in files), 0, "")
    assert [one[0] for one in told] == sorted(one[0] for one in told)
    return digest.num_shards


@pytest.mark.slow
def test_many_small_files_are_waited_for_at_the_same_time(tmp_path: Path, placed: list[bytes]) -> None:
    """It was four, of a store that answers after 60 ms 67 files a second."""
    store = Slow(SMALL_AT_ONCE)
    assert asyncio.run(scanned(written(tmp_path, 1600, 100), store, placed)) == 1600
    assert store.most == SMALL_AT_ONCE
    assert len(set(placed)) == len(placed) == 1600


@pytest.mark.slow
def test_few_files_and_large_ones_are_not(tmp_path: Path, placed: list[bytes]) -> None:
    for number, (files, size_bytes) in enumerate(((100, 100), (100, 256 << 10))):
        root = tmp_path / str(number)
        root.mkdir()
        store = Slow(AT_ONCE)
        asyncio.run(scanned(written(root, files, size_bytes), store, placed))
        assert store.most == AT_ONCE


@pytest.mark.slow
def test_none_is_begun_of_a_scan_that_is_over(tmp_path: Path, placed: list[bytes]) -> None:
    """Many are begun as one: who comes next would wait for the store on behalf of nobody."""
    roots = [tmp_path / name for name in ("over", "next")]
    for root in roots:
        root.mkdir()
        written(root, 2000, 100)
    store = Held()

    async def run() -> None:
        scanner = Scanner(Meter(), lambda shard: placed.append(shard.hash), parallel_files=AT_ONCE)

        def scan(root: Path) -> asyncio.Task[Digest]:
            files = listing.expand(f"{root}/*")
            return asyncio.create_task(scanner.scan("images", files, TERMS, lambda *_: None, lambda _: store))

        try:
            over = scan(roots[0])
            assert await asyncio.to_thread(store.enough.wait, 60)
            over.cancel()
            await asyncio.wait([over])
            following = scan(roots[1])
            store.let_go.set()
            assert (await following).num_shards == 2000
        finally:
            store.let_go.set()
            await scanner.close()

    asyncio.run(run())
    assert [uri for uri, afterwards in store.asked if afterwards and str(roots[0]) in uri] == []
    assert len(placed) == 2000


@pytest.mark.slow
@pytest.mark.long
def test_small_files_take_few_threads_and_few_transactions(
    tmp_path: Path, placed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread for each read, and a transaction for each table, were most of what a small file cost."""
    (tmp_path / "files").mkdir()
    root, started, start = written(tmp_path / "files", 6000, 100), list[str](), threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    tables, committed = FileTables(tmp_path / "files.db"), list[str]()
    assert tables._db is not None
    tables._db.set_trace_callback(lambda said: committed.append(said) if said == "COMMIT" else None)
    store = LocalStore()
    monkeypatch.setattr(threading.Thread, "start", counted)
    assert asyncio.run(scanned(root, store, placed, tables)) == 6000
    assert len(set(placed)) == len(placed) == 6000
    assert started.count("store call") < 0.6 * 6000
    assert len(committed) < 2 * 6000 / 20


@pytest.mark.slow
def test_who_scans_the_same_small_files_meanwhile_reads_none_of_them_again(tmp_path: Path, placed: list[bytes]) -> None:
    (tmp_path / "files").mkdir()
    root, tables = written(tmp_path / "files", 1600, 100), FileTables(tmp_path / "files.db")
    assert asyncio.run(scanned(root, LocalStore(), placed, tables, at_once=3)) == 1600
    assert len(set(placed)) == len(placed) == 1600


@pytest.mark.slow
def test_of_small_files_together_those_that_are_done_are_remembered(tmp_path: Path, placed: list[bytes]) -> None:
    """One is gone since it was listed: the others of its lot are not cut again."""
    (tmp_path / "files").mkdir()
    root = written(tmp_path / "files", 2560, 100)
    files = listing.expand(f"{root}/*")
    (root / "00009").unlink()

    async def fails() -> list[int]:
        tables = FileTables(tmp_path / "files.db")
        scanner = Scanner(Meter(), lambda shard: placed.append(shard.hash), tables, parallel_files=1)
        try:
            with pytest.raises(errors.StaleDigestError, match="00009"):
                await scanner.scan("images", files, TERMS, lambda *_: None, lambda _: LocalStore())
            return [number for number, known in enumerate(scanner.known(files, TERMS)) if known is not None]
        finally:
            await scanner.close()

    assert {*range(9)} <= {*asyncio.run(fails())} <= {*range(9), *range(10, 2560)}


@pytest.mark.slow
def test_what_has_no_generation_is_read_by_each_who_scans_it(tmp_path: Path, placed: list[bytes]) -> None:
    """Nobody can say whether it is still what the other one has read."""
    (tmp_path / "files").mkdir()
    root = written(tmp_path / "files", 300, 100)
    files = [FileEntry(file.uri, file.size_bytes, "") for file in listing.expand(f"{root}/*")]

    async def scan_thrice() -> None:
        scanner = Scanner(Meter(), lambda shard: placed.append(shard.hash), FileTables(tmp_path / "files.db"))
        try:
            await asyncio.gather(
                *(scanner.scan("images", files, TERMS, lambda *_: None, lambda _: LocalStore()) for _ in range(3))
            )
        finally:
            await scanner.close()

    asyncio.run(scan_thrice())
    assert len(placed) == 3 * 300
