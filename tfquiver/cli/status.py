"""`tfquiver status`: nodes, data sets and sessions of a cluster, or of the node of a cache directory."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from tfquiver import errors, node_child, rpc, serving
from tfquiver.proto.tfquiver.v1 import (
    coordinator_pb2,
    coordinator_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    types_pb2,
)

_CALL_S = 5.0


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


def coordinator_address(where: str) -> str:
    """`where` itself when it is an address; else that of the node that runs in this directory."""
    if not Path(where).is_dir():
        if not serving.is_address(where):
            raise errors.InvalidArgumentError(f"{where!r} is neither host:port nor a directory")
        return where
    return node_child.read_endpoint(Path(where)).coordinator


def collect(where: str, token: str = "", sessions: int = 20) -> dict[str, Any]:
    """What the coordinator and its nodes say, as plain values (sizes in bytes).

    Raises UnavailableError when the coordinator does not answer. A node that does not is listed with `error`.
    """
    address = coordinator_address(where)
    with rpc.channel(address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)

        def ask(method: Callable[..., Any], request: Any) -> Any:
            return _ask(method, request, token, f"coordinator {address}")

        nodes = ask(stub.ListNodes, coordinator_pb2.ListNodesRequest()).nodes
        datasets = ask(stub.ListDatasets, coordinator_pb2.ListDatasetsRequest()).datasets
        infos = ask(stub.ListSessions, coordinator_pb2.ListSessionsRequest(limit=sessions)).sessions
    told = [_node(node, token) for node in nodes]
    totals = {key: sum(node.get(key, 0) for node in told) for key in ("hits", "peer_hits", "misses", "store_bytes")}
    asked = totals["hits"] + totals["peer_hits"] + totals["misses"]
    return {
        "coordinator": address,
        "nodes": told,
        "datasets": [_plain(dataset) for dataset in datasets],
        "sessions": [_plain(info) for info in infos],
        **totals,
        "hit_ratio": (totals["hits"] + totals["peer_hits"]) / asked if asked else None,
    }


def _node(node: types_pb2.NodeInfo, token: str) -> dict[str, Any]:
    try:
        with rpc.channel(node.control_address) as channel:
            stub: Any = node_pb2_grpc.NodeStub(channel)
            reply = _ask(stub.Status, node_pb2.StatusRequest(), token, f"node {node.node_id}")
    except errors.TfquiverError as error:
        return {**_plain(node), "error": str(error)}
    counters = _plain(reply)
    return {**counters.pop("node"), **counters}


def _ask(method: Callable[..., Any], request: Any, token: str, whom: str) -> Any:
    try:
        return method(request, timeout=_CALL_S, metadata=rpc.metadata(token), wait_for_ready=True)
    except grpc.RpcError as error:
        raise rpc.from_rpc_error(error, whom) from error


def _plain(message: Any) -> dict[str, Any]:
    fields: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _numbers(message, fields)


def _numbers(message: Any, fields: dict[str, Any]) -> dict[str, Any]:
    # JSON has no 64-bit integers, so the mapping writes them as strings, and bytes as base64: undo both.
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None:
            if field.name in fields and isinstance(fields[field.name], dict):
                _numbers(value, fields[field.name])
        elif isinstance(value, bytes):
            fields[field.name] = value.hex()
        elif isinstance(value, int) and not isinstance(value, bool):
            fields[field.name] = value
    return fields


def _print(status: dict[str, Any], console: Console) -> None:
    ratio = "-" if status["hit_ratio"] is None else f"{status['hit_ratio']:.1%}"
    console.print(
        f"coordinator {status['coordinator']}   hit ratio {ratio}   from the store {decimal(status['store_bytes'])}"
    )
    nodes = _table("node", "used", "quota", "readers", "hits", "peer hits", "misses", "from store")
    for node in status["nodes"]:
        if "error" in node:
            nodes.add_row(_short(node["node_id"]), f"[red]{node['error']}[/red]")
            continue
        counts = (str(node[key]) for key in ("readers", "hits", "peer_hits", "misses"))
        quota = decimal(node["quota_bytes"]) if node["quota_bytes"] else "gateway"
        nodes.add_row(
            _short(node["node_id"]), decimal(node["used_bytes"]), quota, *counts, decimal(node["store_bytes"])
        )
    datasets = _table("data set", "digest", "shards", "records", "size")
    for dataset in status["datasets"]:
        counts = (str(dataset[key]) for key in ("shards", "records"))
        datasets.add_row(dataset["name"], dataset["digest_id"][:12], *counts, decimal(dataset["size_bytes"]))
    sessions = _table("session", "job", "epoch", "state", "acked", "readers", "hits", "short", "reread")
    for info in status["sessions"]:
        leases = info["resident_leases"] + info["missing_leases"]
        hits = f"{info['resident_leases'] / leases:.1%}" if leases else "-"
        state = "ended" if info["ended"] else "open"
        acked = f"{info['acked'] / max(info['shards'], 1):.0%}"
        counts = (str(info[key]) for key in ("shortfall", "reread"))
        name, epoch, readers = _short(info["session_id"]), str(info["epoch"]), str(info["readers"])
        sessions.add_row(name, info["job"], epoch, state, acked, readers, hits, *counts)
    for table in (nodes, datasets, sessions):
        console.print(table)


def _table(*headings: str) -> Table:
    """Narrow: it is read in terminals of 80 columns."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for number, heading in enumerate(headings):
        made.add_column(heading, justify="right" if number else "left", no_wrap=True)
    return made


def _short(name: str) -> str:
    """Enough of an id to tell it from others; `--json` has the whole."""
    return name.rpartition("-")[2][:8]
