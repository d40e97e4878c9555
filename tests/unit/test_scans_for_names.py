"""Scans for data sets that have names say which task they are of; what others wait for as well is nobody's alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.aio import on_loop
from tests.support.digests import digest_of
from tfquiver import errors, stores
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2, types_pb2
from tfquiver.service.node.dataset_scans.first_use import DatasetScans, Scan
from tfquiver.service.node.dataset_scans.named_sources import NamedSources
from tfquiver.service.node.digests_kept_here.digest_cache import DigestCache
from tfquiver.service.node.grpc_calls_warm_clear.servicer import NodeServicer
from tfquiver.service.node.reading_the_object_store.named_access import NamedAccess

DIGEST = digest_of([b"1" * 32])


class Outside:
    """A coordinator that knows nothing, and a scanner that ends when it may."""

    def __init__(self) -> None:
        self.may_end, self.task_ids = asyncio.Event(), list[str]()
        nobody = cast("Any", None)
        self.scans = DatasetScans(cast("Any", self), cast("Any", self), self.scan, nobody)
        self.named = NamedSources(self.scans, nobody, nobody, NamedAccess(), cast("Any", self.scan))

    async def find_dataset(self, request: object) -> None:
        return None

    @contextlib.asynccontextmanager
    async def registering(self, digest: Digest) -> AsyncIterator[None]:
        yield

    async def scan(self, *_: object) -> Digest:
        await self.may_end.wait()
        return DIGEST

    async def register_dataset(
        self, name: str, key: bytes, terms: ListingTerms, data: bytes, task_id: str = ""
    ) -> types_pb2.Dataset:
        self.task_ids.append(task_id)
        return types_pb2.Dataset(digest_id=DIGEST.digest_id)

    def begun(self, task_id: str = "") -> Scan:
        files = [FileEntry("file:///x", 1, "1")]
        return self.scans.begun("train", files, ListingTerms(), b"k" * 32, stores.for_uri, task_id=task_id)


@on_loop
async def test_what_a_data_set_with_a_name_alone_asks_for_is_registered_with_its_task(tmp_path: Path) -> None:
    (tmp_path / "x-1").write_bytes(b"")
    outside = Outside()
    outside.may_end.set()
    task = pb.ScanTask(name="train", sources=[f"{tmp_path}/x-*"])
    found = await outside.named.scan("life/1", task, lambda done, total, trouble: None)
    assert (found.digest_id, outside.task_ids) == (DIGEST.digest_id, ["life/1"])


@on_loop
async def test_what_a_trainer_asks_a_node_for_while_it_is_scanned_is_of_no_task() -> None:
    outside, nobody = Outside(), cast("Any", None)
    node = NodeServicer(
        nobody, outside.scans, nobody, lambda: None, nobody, nobody, nobody, nobody, nobody, nobody
    )  # fmt: skip
    scan = outside.begun("life/1")

    async def asked() -> AsyncIterator[node_pb2.EnsureDatasetRequest]:
        yield node_pb2.EnsureDatasetRequest(listing_key=b"k" * 32, terms=ListingTerms().message())

    async def told() -> list[node_pb2.EnsureDatasetProgress]:
        return [reply async for reply in node.EnsureDataset(asked(), nobody)]

    trainer = asyncio.create_task(told())
    while scan.waiting < 2 and not trainer.done():
        await asyncio.sleep(0)
    assert scan.waiting == 2
    outside.scans.left(scan)  # its data set was deleted: the trainer waits on
    outside.may_end.set()
    assert (await trainer)[-1].dataset.digest_id == DIGEST.digest_id
    assert outside.task_ids == [""]


@on_loop
async def test_what_trainers_wait_for_as_well_is_of_no_task() -> None:
    for before, after in (("life/1", ""), ("", "life/1"), ("life/1", "life of another name/1")):
        outside = Outside()
        scan = outside.begun(before)
        assert outside.begun(after) is scan
        if before and not after:
            outside.scans.left(scan)  # its data set was deleted: the trainer waits on
        outside.may_end.set()
        await scan.task
        assert outside.task_ids == [""]


@on_loop
async def test_who_asks_while_a_scan_that_nobody_wants_any_more_ends_has_it_scanned() -> None:
    """He was given the one that ended with nothing: a task of a data set with a name was never over then."""
    outside, ends = Outside(), asyncio.Event()

    async def slowly(*_: object) -> Digest:
        try:
            await asyncio.Event().wait()
        finally:
            await ends.wait()  # threads that read files
        raise NotImplementedError

    outside.scans._scanner = slowly
    first = outside.begun("life/1")
    await asyncio.sleep(0)
    outside.scans.left(first)
    await asyncio.sleep(0)
    assert not first.task.done()
    outside.scans._scanner = outside.scan
    key = node_pb2.EnsureDatasetRequest(listing_key=b"k" * 32)
    assert outside.scans.under_way(key) is None
    second = outside.begun("life of another name/1")
    ends.set()
    await asyncio.wait([first.task])
    assert first.task.cancelled() and outside.scans.under_way(key) is second
    outside.may_end.set()
    assert (await second.task).digest_id == DIGEST.digest_id
    assert outside.task_ids == ["life of another name/1"] and not outside.scans.busy


@on_loop
async def test_a_node_that_stops_waits_for_scans_that_nobody_wants_any_more() -> None:
    outside, ended = Outside(), False

    async def slowly(*_: object) -> Digest:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended = True
        raise NotImplementedError

    outside.scans._scanner = slowly
    scan = outside.begun("life/1")
    await asyncio.sleep(0)
    outside.scans.left(scan)
    await outside.scans.stop()
    assert ended


@on_loop
async def test_a_digest_that_is_not_registered_is_on_no_disk(tmp_path: Path) -> None:
    """That of a scan whose node, or coordinator, was killed at its end named its shards for ever: they were nobody's,
    and stayed."""
    outside, known = Outside(), False
    digests = DigestCache(tmp_path, cast("Any", None))
    await digests.start()
    outside.scans._digests = digests
    outside.may_end.set()

    async def register(*_: object) -> types_pb2.Dataset:
        assert digests.here() == [DIGEST.digest_id], "when it is removed it is found here"
        await asyncio.gather(*digests._saves)
        assert not list(tmp_path.iterdir()), "who is killed now leaves none"
        if not known:
            raise errors.UnavailableError("the coordinator is away")
        return types_pb2.Dataset(digest_id=DIGEST.digest_id)

    outside.register_dataset = register  # type: ignore[method-assign]
    with pytest.raises(errors.UnavailableError, match="is away"):
        await outside.begun("life/1").task
    assert not digests.here()
    known = True
    await outside.begun("life/1").task
    await digests.close()
    assert [path.stem for path in tmp_path.iterdir()] == [DIGEST.digest_id.hex()]
