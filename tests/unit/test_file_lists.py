"""Lists of a great many files on their way to a node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from tests.support.aio import on_loop
from tfquiver import errors, stores
from tfquiver.data_sources_found_and_registered.scans import file_parts
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import node_pb2
from tfquiver.service.node.dataset_scans import first_use as ensure


async def sent(files: list[FileEntry], times: int = 1) -> AsyncIterator[node_pb2.EnsureDatasetRequest]:
    parts = [node_pb2.EnsureDatasetRequest(files=part) for part in file_parts(files)]
    for _ in range(times):
        for part in parts:
            yield part


@pytest.mark.slow
@pytest.mark.long
@on_loop
async def test_two_hundred_thousand_files_come_as_they_went_in_messages_that_fit() -> None:
    files = [FileEntry(f"gs://bucket/a/rather/long/folder/train-{at:07}", at, f"{at}") for at in range(200_000)]
    sizes = [node_pb2.EnsureDatasetRequest(files=part).ByteSize() for part in file_parts(files)]
    assert len(sizes) > 10
    assert max(sizes) < rpc.MAX_MESSAGE_BYTES // 4
    assert await ensure.received(sent(files)) == files


@pytest.mark.slow
@pytest.mark.long
@on_loop
async def test_a_million_files_are_taken_and_not_one_more() -> None:
    files, told = [FileEntry(f"f{at}", 1, "1", "gzip") for at in range(10_000)], 0

    async def counted() -> AsyncIterator[node_pb2.EnsureDatasetRequest]:
        nonlocal told
        async for request in sent(files, 101):
            yield request
            told += len(request.files)

    with pytest.raises(errors.InvalidArgumentError, match="files: at most 1000000"):
        await ensure.received(counted())
    assert told == ensure.MAX_FILES  # all of these were taken


@on_loop
async def test_names_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensure, "MAX_NAMES_BYTES", 1000)
    with pytest.raises(errors.InvalidArgumentError, match="and 1000 bytes of names"):
        await ensure.received(sent([FileEntry("x" * 900, 1, "1")], 2))


@on_loop
async def test_sizes_that_no_heartbeat_could_tell_are_refused() -> None:
    nobody = cast("Any", None)
    scans = ensure.DatasetScans(nobody, nobody, nobody, nobody)
    files = [FileEntry(f"gs://b/{at}", 1 << 63, "1") for at in range(2)]
    with pytest.raises(errors.InvalidArgumentError, match=r"files: 18\.4 EB"):
        scans.begun("data", files, ListingTerms(), b"k" * 32, stores.for_uri)
    assert not scans.works() and not scans.busy


@on_loop
async def test_what_cannot_be_names_its_place() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"files\[1\].uri: empty"):
        await ensure.received(sent([FileEntry("a", 1, "1"), FileEntry("", 1, "1")]))
    with pytest.raises(errors.InvalidArgumentError, match="files: none"):
        await ensure.received(sent([]))
