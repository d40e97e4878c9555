"""What a node asks of another one: that it scan some files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import grpc

from tfquiver import errors
from tfquiver.data_sources_found_and_registered.scans import file_parts
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2_grpc, types_pb2
from tfquiver.scanning.file_scan import ScannedFile
from tfquiver.service.node.dataset_scans.tables import Tables
from tfquiver.sizes_durations_amounts.amounts import many

_LONGEST_TROUBLE = 1000
SILENT_S = 30.0  # who serves a call says something every second


class Asking:
    """Args:
    node_id: this node.
    token: that it shows.
    """

    def __init__(self, node_id: str, token: str) -> None:
        self._node_id, self._metadata = node_id, rpc.metadata(token)

    async def scanned(
        self,
        node: types_pb2.NodeInfo,
        task_id: str,
        files: list[FileEntry],
        terms: ListingTerms,
        report: Callable[[int, int, str], None],
    ) -> AsyncGenerator[tuple[int, ScannedFile], None]:
        """Each of `files` by its number, as it is done; `report` is told bytes and records since the call began.

        Raises UnavailableError (it is gone, or silent), ProtocolError (what it says cannot be) and what that node says.
        """
        request = pb.ScanFilesRequest(task_id=task_id, node_id=self._node_id, terms=terms.message())
        for part in file_parts(files):
            request.files.extend(part)
        what = f"node {node.node_id} at {node.control_address}"
        total_bytes = sum(file.size_bytes for file in files)
        tables, left = Tables(files, terms.policy), len(files)
        async with rpc.aio_channel(node.control_address) as channel:
            stub: Any = node_pb2_grpc.NodeStub(channel)
            call = stub.ScanFiles(request, metadata=self._metadata)
            try:
                while left:
                    async with asyncio.timeout(SILENT_S):
                        reply = await call.read()
                    if reply is grpc.aio.EOF:
                        break
                    done = min(reply.done_bytes, total_bytes), min(reply.records, total_bytes)
                    report(*done, plain(reply.trouble, _LONGEST_TROUBLE))
                    for table in reply.tables:
                        if (whole := tables.take(table)) is not None:
                            left -= 1
                            yield whole
            except grpc.RpcError as error:
                raise rpc.from_rpc_error(error, what) from error
            except TimeoutError as error:
                raise errors.UnavailableError(f"{what}: silent for {SILENT_S:g} s") from error
            finally:
                call.cancel()
        if left:
            raise errors.ProtocolError(f"{what}: it ended with {left} of {many(len(files), 'file')} to come")
