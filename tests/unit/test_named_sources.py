"""Listing the sources of data sets that have names, where the store does not answer."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.node.dataset_scans.named_sources import NamedSources
from tfquiver.service.node.reading_the_object_store.named_access import NamedAccess, Way
from tfquiver.stores import ObjectStore


class Silent(NamedAccess):
    """No store answers until `answer` is set; then all say no."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = threading.Event()

    def way(self, reference: str, name: str) -> Way:
        return cast("Way", self)

    def store_for(self, uri: str) -> ObjectStore:
        self.answer.wait(60)
        raise errors.PermissionError_(uri)


@on_loop
async def test_stores_that_do_not_answer_take_no_threads_from_others() -> None:
    access = Silent()
    nobody = cast("Any", None)
    sources = NamedSources(nobody, nobody, nobody, access, nobody)
    task = pb.ScanTask(sources=["gs://b/x-*"])
    scans = [asyncio.create_task(sources.scan("x/1", task, lambda done, total, trouble: None)) for _ in range(60)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(20):
            for _ in range(10):
                await asyncio.to_thread(lambda: None)
        assert not any(scan.done() for scan in scans)
    finally:
        access.answer.set()
        failed = await asyncio.gather(*scans, return_exceptions=True)
    assert all(isinstance(one, errors.PermissionError_) for one in failed)
