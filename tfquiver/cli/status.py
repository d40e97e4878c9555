"""`tfquiver status`: nodes, data sets and sessions of a cluster, or of the node of a cache directory."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.filesize import decimal

from tfquiver import errors, rpc, serving
from tfquiver.cli import cache_setting, calls
from tfquiver.cli.calls import coordinator_address, plain, table
from tfquiver.proto.tfquiver.v1 import (
    coordinator_pb2,
    coordinator_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    types_pb2,
)


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("status", help="nodes, data sets, sessions, hit ratio, bytes from the store")
    parser.add_argument("where", help="address of a coordinator (host:port), or a cache directory")
    parser.add_argument("--auth_token_file", default="", metavar="FILE", help="file whose first line is the token")
    parser.add_argument("--sessions", type=int, default=20, metavar="N", help="how many, newest first; default: 20")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    status = collect(arguments.where, serving.read_token(arguments.auth_token_file), arguments.sessions)
    if arguments.json:
        print(json.dumps(status))
    else:
        _print(status, Console())
    return 0


def collect(where: str, token: str = "", sessions: int = 20) -> dict[str, Any]:
    """What the coordinator and its nodes say, as plain values (sizes in bytes).

    Raises UnavailableError when the coordinator does not answer. A node that does not is listed with `error`.
    """
    address = coordinator_address(where)
    with rpc.channel(address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)

        def ask(method: Callable[..., Any], request: Any) -> Any:
            return calls.ask(method, request, token, f"coordinator {address}")

        nodes = ask(stub.ListNodes, coordinator_pb2.ListNodesRequest()).nodes
        datasets = [
            (dataset, ask(stub.GetCache, coordinator_pb2.GetCacheRequest(digest_id=dataset.digest_id)))
            for dataset in ask(stub.ListDatasets, coordinator_pb2.ListDatasetsRequest()).datasets
        ]
        infos = ask(stub.ListSessions, coordinator_pb2.ListSessionsRequest(limit=sessions)).sessions
    told = [_node(node, token) for node in nodes]
    totals = {key: sum(node.get(key, 0) for node in told) for key in ("hits", "peer_hits", "misses", "store_bytes")}
    asked = totals["hits"] + totals["peer_hits"] + totals["misses"]
    return {
        "coordinator": address,
        "nodes": told,
        "datasets": [plain(dataset) | {"cache": cache_setting.plain(cache)} for dataset, cache in datasets],
        "sessions": [plain(info) for info in infos],
        **totals,
        "hit_ratio": (totals["hits"] + totals["peer_hits"]) / asked if asked else None,
    }


def _node(node: types_pb2.NodeInfo, token: str) -> dict[str, Any]:
    try:
        with rpc.channel(node.control_address) as channel:
            stub: Any = node_pb2_grpc.NodeStub(channel)
            reply = calls.ask(stub.Status, node_pb2.StatusRequest(), token, f"node {node.node_id}")
    except errors.TfquiverError as error:
        return {**plain(node), "error": str(error)}
    counters = plain(reply)
    return {**counters.pop("node"), **counters}


def _print(status: dict[str, Any], console: Console) -> None:
    ratio = "-" if status["hit_ratio"] is None else f"{status['hit_ratio']:.1%}"
    console.print(
        f"coordinator {status['coordinator']}   hit ratio {ratio}   from the store {decimal(status['store_bytes'])}"
    )
    nodes = table("node", "used", "quota", "readers", "hits", "peer hits", "misses", "from store")
    for node in status["nodes"]:
        if "error" in node:
            nodes.add_row(_short(node["node_id"]), f"[red]{node['error']}[/red]")
            continue
        counts = (str(node[key]) for key in ("readers", "hits", "peer_hits", "misses"))
        quota = decimal(node["quota_bytes"]) if node["quota_bytes"] else "gateway"
        nodes.add_row(
            _short(node["node_id"]), decimal(node["used_bytes"]), quota, *counts, decimal(node["store_bytes"])
        )
    datasets = table("data set", "digest", "shards", "records", "size", "cache")
    for dataset in status["datasets"]:
        counts = (str(dataset[key]) for key in ("shards", "records"))
        size, cache = decimal(dataset["size_bytes"]), cache_setting.text(dataset["cache"])
        datasets.add_row(dataset["name"], dataset["digest_id"][:8], *counts, size, cache)
    sessions = table("session", "job", "epoch", "state", "acked", "readers", "hits", "short", "reread")
    for info in status["sessions"]:
        leases = info["resident_leases"] + info["missing_leases"]
        hits = f"{info['resident_leases'] / leases:.1%}" if leases else "-"
        state = "ended" if info["ended"] else "open"
        acked = f"{info['acked'] / max(info['shards'], 1):.0%}"
        counts = (str(info[key]) for key in ("shortfall", "reread"))
        name, epoch, readers = _short(info["session_id"]), str(info["epoch"]), str(info["readers"])
        sessions.add_row(name, info["job"], epoch, state, acked, readers, hits, *counts)
    for made in (nodes, datasets, sessions):
        console.print(made)


def _short(name: str) -> str:
    """Enough of an id to tell it from others; `--json` has the whole."""
    return name.rpartition("-")[2][:8]
