"""`tfquiver status`: nodes, data sets and sessions of a cluster, or of the node of a cache directory."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tfquiver import errors
from tfquiver.cli import calls, cold
from tfquiver.cli.calls import coordinator_address, cut, plain, table
from tfquiver.proto.tfquiver.v1 import (
    coordinator_pb2,
    coordinator_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    types_pb2,
)
from tfquiver.trust import own_token, plain_text
from tfquiver.trust.plain_text import shortened
from tfquiver.wire import rpc

_NODES_AT_ONCE = 256  # each takes a descriptor
_MOST_SESSIONS = 100_000
_LEGEND = (
    "done: shards read. unread: shards whose reader was lost after the end, perhaps not delivered. "
    "again: shards handed out more than once."
)


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("status", help="nodes, data sets, sessions, hit ratio, bytes from the store")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("where", nargs="?", metavar="WHERE", help="coordinator (host:port), or a cache directory")
    where.add_argument("--service", metavar="WHERE", help="the same, as the other commands have it")
    parser.add_argument("--auth_token_file", default="", metavar="FILE", help="file whose first line is the token")
    parser.add_argument("--sessions", type=_count, default=20, metavar="N", help="how many, newest first; default: 20")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.set_defaults(run=_run)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and 0 < int(text) <= _MOST_SESSIONS):
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number from 1 to {_MOST_SESSIONS}")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    where = arguments.service if arguments.where is None else arguments.where
    if cold.is_cold(where):
        told = cold.collect(where)
        print(json.dumps(told) if arguments.json else _cold(told))
        return 0
    status = collect(where, own_token.read_token(arguments.auth_token_file), arguments.sessions)
    if arguments.json:
        print(json.dumps(status))
    else:
        show(status, calls.console())
    return 0


def collect(where: str, token: str = "", sessions: int = 20) -> dict[str, Any]:
    """What the coordinator and its nodes say, as plain values (sizes in bytes).

    Raises UnavailableError when the coordinator does not answer. A node that does not is listed with `error`.
    """
    address = coordinator_address(where)
    with rpc.channel(address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        whom = f"coordinator {address}"
        nodes = calls.ask(stub.ListNodes, coordinator_pb2.ListNodesRequest(), token, whom).nodes
        datasets = calls.ask(stub.ListDatasets, coordinator_pb2.ListDatasetsRequest(), token, whom).datasets
        wanted = coordinator_pb2.ListSessionsRequest(limit=sessions)
        infos = calls.ask(stub.ListSessions, wanted, token, whom).sessions
        cached = calls.settings(stub, datasets, token, whom)
    told = list(_nodes(nodes, token))
    keys = ("hits", "peer_hits", "misses", "store_bytes", "served_bytes")
    totals = {key: sum(node.get(key, 0) for node in told) for key in keys}
    asked = totals["hits"] + totals["peer_hits"] + totals["misses"]
    names = {dataset.digest_id: dataset.name for dataset in datasets}
    return {
        "coordinator": address,
        "nodes": told,
        "datasets": cached,
        "sessions": [plain(info) | {"dataset": names.get(info.digest_id, "")} for info in infos],
        **totals,
        "hit_ratio": (totals["hits"] + totals["peer_hits"]) / asked if asked else None,
    }


def _nodes(nodes: Sequence[types_pb2.NodeInfo], token: str) -> Iterator[dict[str, Any]]:
    """All at once: a node that is dead, or hangs, must not hold up what is said of the others."""
    for at in range(0, len(nodes), _NODES_AT_ONCE):
        some = nodes[at : at + _NODES_AT_ONCE]
        with ExitStack() as stack:
            questions: list[calls.Asked] = []
            for node in some:
                stub: Any = node_pb2_grpc.NodeStub(stack.enter_context(rpc.channel(node.control_address)))
                whom = f"node {_short(node.node_id)} at {node.control_address}"
                questions.append((stub.Status, node_pb2.StatusRequest(), whom))
            for node, reply in zip(some, calls.ask_all(questions, token), strict=True):
                if isinstance(reply, errors.TfquiverError):
                    yield {**plain(node), "error": str(reply)}
                    continue
                counters = plain(reply)
                yield {**counters.pop("node"), **counters}


def show(status: dict[str, Any], console: Console) -> None:
    """As tables. Every name in them was chosen by somebody else."""
    ratio = "-" if status["hit_ratio"] is None else f"{status['hit_ratio']:.1%}"
    served, store = decimal(status["served_bytes"]), decimal(status["store_bytes"])
    console.print(f"coordinator {plain_text.plain(status['coordinator'])}   hit ratio {ratio}")
    console.print(f"given to readers {served}   read from the store {store}")
    nodes = table("node", "used", "quota", "readers", "hits", "peer hits", "misses", "from store")
    silent = []
    for node in status["nodes"]:
        if "error" in node:
            silent.append(plain_text.plain(node["error"]))
            continue
        counts = (str(node[key]) for key in ("readers", "hits", "peer_hits", "misses"))
        quota = decimal(node["quota_bytes"]) if node["quota_bytes"] else "gateway"
        nodes.add_row(
            _short(node["node_id"]), decimal(node["used_bytes"]), quota, *counts, decimal(node["store_bytes"])
        )
    console.print(nodes)
    for line in silent:
        console.print(Text(line, style="red"), soft_wrap=True)
    console.print(calls.datasets_table(status["datasets"]))
    sessions = table("job", "data set", "epoch", "state", "done", "readers", "hits", "unread", "again")
    for info in status["sessions"]:
        leases = info["resident_leases"] + info["missing_leases"]
        hits = f"{info['resident_leases'] / leases:.0%}" if leases else "-"
        done = f"{info['acked'] / max(info['shards'], 1):.0%}"
        counts = (str(info[key]) for key in ("shortfall", "reread"))
        dataset = cut(info["dataset"], 16) or info["digest_id"][:8]
        state = "ended" if info["ended"] else "open"
        sessions.add_row(
            cut(info["job"], 14), dataset, str(info["epoch"]), state, done, str(info["readers"]), hits, *counts
        )
    console.print(sessions)
    if status["sessions"]:
        console.print(_LEGEND)


def _cold(told: dict[str, Any]) -> str:
    """No node, no counters: what is on the disk."""
    holds = f"{told['entries']} shards, {decimal(told['used_bytes'])}; digests: {told['digests']}"
    return f"no node runs in {plain_text.plain(told['cache_dir'])}; it holds {holds}"


def _short(name: str) -> str:
    """Enough of an id to tell it from others; `--json` has the whole."""
    return plain_text.plain(name.rpartition("-")[2][:8])
