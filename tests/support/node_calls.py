"""Calls to a running node and its coordinator, for tests and benchmarks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from tfquiver import stores
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing import listing
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import (
    coordinator_pb2,
    coordinator_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    types_pb2,
)
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.stores import ObjectStore

CALL_S = 20.0


def ensure(
    control: str,
    pattern: str | os.PathLike[str],
    policy: CutPolicy | None = None,
    store_for: Callable[[str], ObjectStore] = stores.for_uri,
) -> types_pb2.Dataset:
    """The data set of these files, scanned if need be."""
    with rpc.channel(control) as channel:
        stub: Any = node_pb2_grpc.NodeStub(channel)
        requests = ensure_requests(listing.expand(pattern, store_for), policy or CutPolicy())
        progress = list(stub.EnsureDataset(iter(requests), timeout=120.0, wait_for_ready=True))
    dataset: types_pb2.Dataset = progress[-1].dataset
    return dataset


def ensure_requests(
    files: Sequence[FileEntry], policy: CutPolicy, client_id: str = "", place: str = ""
) -> list[node_pb2.EnsureDatasetRequest]:
    """What EnsureDataset is sent: the header, and the files at once, whether they are needed or not."""
    terms = ListingTerms(policy, place)
    header = node_pb2.EnsureDatasetRequest(
        name="test", listing_key=terms.key(files), terms=terms.message(), client_id=client_id
    )
    body = node_pb2.EnsureDatasetRequest()
    for file in files:
        body.files.add(uri=file.uri, size_bytes=file.size_bytes, generation=file.generation)
    return [header, body]


def status(control: str) -> node_pb2.StatusReply:
    with rpc.channel(control) as channel:
        stub: Any = node_pb2_grpc.NodeStub(channel)
        reply: node_pb2.StatusReply = stub.Status(node_pb2.StatusRequest(), timeout=CALL_S, wait_for_ready=True)
        return reply


def ticket(coordinator: str, dataset: types_pb2.Dataset, key: str, provider: str = "provider") -> str:
    """The id of a session that several readers can join."""
    request = coordinator_pb2.TicketRequest(session_key=key, provider_id=provider, digest_id=dataset.digest_id, job=key)
    with rpc.channel(coordinator) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        reply = stub.Ticket(request, timeout=CALL_S, wait_for_ready=True)
    assert not reply.end
    return str(reply.session_id)


def sessions(coordinator: str, key: str = "") -> list[coordinator_pb2.SessionInfo]:
    with rpc.channel(coordinator) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        request = coordinator_pb2.ListSessionsRequest(session_key=key)
        return list(stub.ListSessions(request, timeout=CALL_S, wait_for_ready=True).sessions)


def nodes(coordinator: str) -> list[types_pb2.NodeInfo]:
    with rpc.channel(coordinator) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        request = coordinator_pb2.ListNodesRequest()
        return list(stub.ListNodes(request, timeout=CALL_S, wait_for_ready=True).nodes)


def peers(control: str) -> list[node_pb2.ReachedPeer]:
    """The other nodes that a node knows of; it has tried each of them."""
    with rpc.channel(control) as channel:
        stub = node_pb2_grpc.NodeStub(channel)
        return list(stub.ReachPeers(node_pb2.ReachPeersRequest(most=64), timeout=20, wait_for_ready=True).peers)
