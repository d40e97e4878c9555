"""`tfquiver status`: nodes, dispatchers, data sets, sessions of a cluster; of a directory without node its content."""

from __future__ import annotations

import argparse
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.calls import plain
from tfquiver.cli.showing import cold, mounts_view, status_view, words
from tfquiver.cli.showing.status_view import saved
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.plain_text import shortened
from tfquiver.proto.tfquiver.v1 import (
    coordinator_pb2,
    coordinator_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    types_pb2,
)
from tfquiver.wire import pages, rpc

_NODES_AT_ONCE = 256  # each takes a descriptor
_MOST_SESSIONS = 100_000


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("status", help="what is wrong, if anything; then what is cached, read and saved")
    calls.add_where(parser, positional=True)
    parser.add_argument("--sessions", type=_count, default=20, metavar="N", help="how many, newest first; default: 20")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.set_defaults(run=_run)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and 0 < int(text) <= _MOST_SESSIONS):
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number from 1 to {_MOST_SESSIONS}")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    where = calls.where(arguments)
    if cold.is_cold(where):
        told = cold.collect(where)
        print(json.dumps(told) if arguments.json else status_view.cold(told))
        return 0
    status = collect(where, calls.token(arguments), arguments.sessions)
    if arguments.json:
        print(json.dumps(status))
    else:
        status_view.show(status, calls.console())
    return 0


def collect(where: str, token: str = "", sessions: int = 20) -> dict[str, Any]:
    """What the coordinator and its nodes say, as plain values (sizes in bytes).

    Raises UnavailableError when the coordinator does not answer. A node that does not is listed with `error`.
    """
    address = coordinator_address(where)
    with calls.channel(address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        whom = f"coordinator {address}"
        listed_nodes = calls.ask(stub.ListNodes, coordinator_pb2.ListNodesRequest(), token, whom)
        asked = coordinator_pb2.ListDispatchersRequest()
        listed = calls.ask_if_known(stub.ListDispatchers, asked, token, whom)
        datasets = calls.ask(stub.ListDatasets, coordinator_pb2.ListDatasetsRequest(), token, whom).datasets
        wanted = coordinator_pb2.ListSessionsRequest(limit=sessions)
        infos = pages.sessions(lambda page: calls.ask(stub.ListSessions, page, token, whom), wanted)
        limits = calls.ask_if_known(stub.ListRemoteIO, coordinator_pb2.ListRemoteIORequest(), token, whom)
        cached = calls.settings(stub, datasets, token, whom)
    told = list(_nodes(listed_nodes.nodes, token))
    keys = ("hits", "peer_hits", "misses", "store_bytes", "served_bytes")
    totals = {key: sum(node.get(key, 0) for node in told) for key in keys}
    given = totals["hits"] + totals["peer_hits"] + totals["misses"]
    names = {dataset.digest_id: dataset.name for dataset in datasets}
    status = {
        "coordinator": address,
        "nodes": told,
        "lost_nodes": [{**plain(one.node), "silent_ms": one.silent_ms} for one in listed_nodes.lost],
        "dispatchers": [plain(one) for one in listed.dispatchers] if listed else [],
        "datasets": cached,
        "sessions": [with_state(plain(info) | {"dataset": names.get(info.digest_id, "")}) for info in infos],
        "remote_io": [plain(one) for one in limits.jobs] if limits else [],
        "store": plain(limits.store) if limits and limits.HasField("store") else None,
        "mounts": mounts_view.collect(),
        **totals,
        "hit_ratio": (totals["hits"] + totals["peer_hits"]) / given if given else None,
        "saved": saved([node["totals"] for node in told if node.get("totals")]),
    }
    return {"problems": status_view.problems(status), **status}


def with_state(session: dict[str, Any]) -> dict[str, Any]:
    """`ended` is the coordinator's word; `state` is what it comes to."""
    return session | {"state": words.state(session)}


def _nodes(nodes: Sequence[types_pb2.NodeInfo], token: str) -> Iterator[dict[str, Any]]:
    """All at once: a node that is dead, or hangs, must not hold up what is said of the others."""
    for at in range(0, len(nodes), _NODES_AT_ONCE):
        some = nodes[at : at + _NODES_AT_ONCE]
        with ExitStack() as stack:
            questions: list[calls.Asked] = []
            for node in some:
                stub: Any = node_pb2_grpc.NodeStub(stack.enter_context(rpc.channel(node.control_address)))
                whom = f"node {words.short(node.node_id)} at {node.control_address}"
                questions.append((stub.Status, node_pb2.StatusRequest(), whom))
            for node, reply in zip(some, calls.ask_all(questions, token), strict=True):
                where = {"host": words.host(node.control_address, socket.gethostname())}
                if isinstance(reply, errors.TfquiverError):
                    yield {**plain(node), **where, "error": str(reply)}
                    continue
                counters = plain(reply)
                yield {**counters.pop("node"), **where, **counters}
