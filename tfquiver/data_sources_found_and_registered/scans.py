"""A listing that nobody knows, scanned by a node: which one, asked how, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence

import grpc
import numpy as np
from absl import logging

from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import addresses, rpc
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc, types_pb2
from tfquiver.shard_owners_chunks_hash_prefixes import rendezvous
from tfquiver.users_arguments_checked.option_groups import Progress

Metadata = tuple[tuple[str, str], ...]
_SAY_EVERY_S = 5
_PAUSE_S = 0.1
_FILES_BYTES = 256 << 10  # of a message: little enough that the node is not held up by one
_FILE_BYTES = 32  # of a file in it, beside its names
_COMPRESSIONS = {
    "none": types_pb2.COMPRESSION_NONE,
    "gzip": types_pb2.COMPRESSION_GZIP,
    "zlib": types_pb2.COMPRESSION_ZLIB,
}


def header(name: str, key: bytes, terms: ListingTerms, client_id: str) -> node_pb2.EnsureDatasetRequest:
    """`key`: of the listing; `client_id`: of store_access.py, "" for the node's own credentials."""
    return node_pb2.EnsureDatasetRequest(name=name, listing_key=key, terms=terms.message(), client_id=client_id)


def scan(
    control: str,
    header: node_pb2.EnsureDatasetRequest,
    files: Sequence[FileEntry],
    progress: Progress | None,
    metadata: Metadata,
    deadline_s: float,
) -> types_pb2.Dataset:
    """Asks again while the scan gets further: what is done of it is not done again. Errors as `Registrar.files`."""
    what = f"scanning on the node at {control}"
    patience = ScanPatience(deadline_s, time.monotonic())
    while True:
        try:
            for reply in _ensure(control, header, files, metadata):
                patience.seen(reply.done_bytes, time.monotonic())
                if reply.trouble:
                    every_n_seconds(logging.WARNING, "%s: %s", _SAY_EVERY_S, what, reply.trouble)
                if progress is not None and reply.total_bytes:
                    progress(reply.done_bytes, reply.total_bytes)
                if reply.HasField("dataset"):
                    return reply.dataset
            raise errors.ProtocolError(f"the node at {control} ended its scan without a data set")
        except grpc.RpcError as error:
            if error.code() not in rpc.RETRYABLE or patience.is_over(time.monotonic()):
                raise rpc.from_rpc_error(error, what) from error
            every_n_seconds(logging.WARNING, "%s: %s; trying again", _SAY_EVERY_S, what, error.details())
            time.sleep(_PAUSE_S)


def _ensure(
    control: str, header: node_pb2.EnsureDatasetRequest, files: Sequence[FileEntry], metadata: Metadata
) -> Iterator[node_pb2.EnsureDatasetProgress]:
    """One call: the header first, the files if the node asks for them."""
    wanted = threading.Event()
    over = threading.Event()

    def requests() -> Iterator[node_pb2.EnsureDatasetRequest]:
        yield header
        wanted.wait()
        if over.is_set():
            return
        for part in file_parts(files):
            yield node_pb2.EnsureDatasetRequest(files=part)

    with rpc.channel(control) as channel:
        call = node_pb2_grpc.NodeStub(channel).EnsureDataset(requests(), metadata=metadata)
        try:
            for reply in call:
                if reply.need_files:
                    wanted.set()
                else:
                    yield reply
        finally:
            over.set()
            wanted.set()
            call.cancel()


def file_parts(files: Sequence[FileEntry]) -> Iterator[list[types_pb2.FileInfo]]:
    """The files in messages that are small enough, however many there are."""
    part: list[types_pb2.FileInfo] = []
    room = _FILES_BYTES
    for file in files:
        part.append(
            types_pb2.FileInfo(
                uri=file.uri,
                size_bytes=file.size_bytes,
                generation=file.generation,
                compression=_COMPRESSIONS.get(file.compression, types_pb2.COMPRESSION_UNSPECIFIED),
            )
        )
        room -= _FILE_BYTES + len(file.uri.encode()) + len(file.generation.encode())
        if room <= 0:
            yield part
            part, room = [], _FILES_BYTES
    if part:
        yield part


def scanning_node(key: bytes, nodes: Iterable[types_pb2.NodeInfo]) -> str:
    """The control address of the node that scans a listing (its key); "": none caches.

    Listings are spread over the nodes, and whoever asks for one comes to the same node and joins its scan.
    """
    all_caching = {node.node_id: node.control_address for node in nodes if node.quota_bytes}
    if not all_caching:
        return ""
    # Where some can be reached from other machines, one that says `localhost` would be somebody else for each caller.
    caching = {node_id: at for node_id, at in all_caching.items() if addresses.leads_elsewhere(at)} or all_caching
    ids = sorted(caching)
    row = np.frombuffer(key, np.uint8).reshape(1, 32)
    return caching[ids[int(rendezvous.owners(row, ids)[0])]]


class ScanPatience:
    """How long a scan that fails is asked for again: `deadline_s` since it last got further than ever before."""

    def __init__(self, deadline_s: float, now_s: float) -> None:
        self._deadline_s = deadline_s
        self._give_up_at = now_s + deadline_s
        self._furthest = 0

    def seen(self, done_bytes: int, now_s: float) -> None:
        if done_bytes > self._furthest:
            self._furthest = done_bytes
            self._give_up_at = now_s + self._deadline_s

    def is_over(self, now_s: float) -> bool:
        return now_s > self._give_up_at
