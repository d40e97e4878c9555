"""Files that several nodes are asked for at the same time are scanned by one: it tells the coordinator, others wait for
what it registers. Where it is not heard of any more, the next one scans them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, types_pb2
from tfquiver.service.node.coordinator_link.coordinator_link import CoordinatorLink

_SAID_EVERY_S = 3.0  # the coordinator forgets a node after ten
_ASKED_EVERY_S = 0.5


class Waiting(Protocol):
    """`trouble`: what people who wait are told."""

    trouble: str


class ScansElsewhere:
    def __init__(self, link: CoordinatorLink, node_id: str) -> None:
        """`node_id`: as which this one is known; "": it tells nobody, and waits for nobody."""
        self._link, self._node_id = link, node_id

    async def found(self, listing_key: bytes, scan: Waiting) -> types_pb2.Dataset | None:
        """What another node has registered meanwhile. None: these files are this node's to scan; say so with `told`.

        Waits for as long as the other says that it scans them. Raises what the coordinator's link does.
        """
        while self._node_id:
            try:
                found = await self._ask(listing_key)
            except errors.AlreadyRunningError as error:
                scan.trouble = str(error)
            else:
                scan.trouble = ""
                return found
            await asyncio.sleep(_ASKED_EVERY_S)
        return None

    @contextlib.asynccontextmanager
    async def told(self, listing_key: bytes) -> AsyncIterator[None]:
        """That this node scans them, again and again within."""
        telling = asyncio.create_task(self._tell(listing_key))
        try:
            yield
        finally:
            telling.cancel()
            with contextlib.suppress(errors.TfquiverError):
                await self._ask(listing_key, ended=True)

    async def _tell(self, listing_key: bytes) -> None:
        while self._node_id:
            await asyncio.sleep(_SAID_EVERY_S)
            with contextlib.suppress(errors.TfquiverError):  # it may be away: whoever asks then scans them, too
                await self._ask(listing_key)

    async def _ask(self, listing_key: bytes, ended: bool = False) -> types_pb2.Dataset | None:
        if not self._node_id:
            return None
        request = coordinator_pb2.FindDatasetRequest(listing_key=listing_key, scanner=self._node_id, scan_ended=ended)
        return await self._link.find_dataset(request)
