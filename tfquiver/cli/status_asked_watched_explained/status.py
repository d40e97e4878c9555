"""`tfquiver status` and `tfquiver.status()`: nodes, dispatchers, data sets, sessions of a cluster; of a directory
without node its content."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.calls import plain
from tfquiver.cli.dataset_commands import names as names_of
from tfquiver.cli.status_asked_watched_explained import cold, sums, up_away, watching
from tfquiver.cli.status_asked_watched_explained.lookout import Lookout
from tfquiver.cli.status_asked_watched_explained.sparing import Sparing
from tfquiver.cli.status_asked_watched_explained.unfollowed import Unfollowed
from tfquiver.cli.status_tables_and_warnings import money, mounts_view, nodes_view, status_view, unreached, words
from tfquiver.cluster_address.running import named_or_running, one_named_or_running
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.grpc_plumbing import pages
from tfquiver.grpc_plumbing.kept_channels import KeptChannels
from tfquiver.node_daemon_and_notes_in_directories.directory import node_id_in
from tfquiver.plain_text import plain as printable
from tfquiver.plain_text import shortened
from tfquiver.proto.tfquiver.v1 import (
    coordinator_pb2,
    coordinator_pb2_grpc,
    named_datasets_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    types_pb2,
)
from tfquiver.roles_and_tokens import own_token
from tfquiver.service.node import caches_on_this_disk

_MOST_SESSIONS = 100_000
_SESSIONS = 20
_HELP_SESSIONS = f"how many, newest first; default: {_SESSIONS}"
_FREE = money.Prices()
_EVERY_S, _LEAST_S, _MOST_S = 2.0, 0.2, 86400.0


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("status")
    calls.add_where(parser, positional=True)
    parser.add_argument("--sessions", type=_count, default=_SESSIONS, metavar="N", help=_HELP_SESSIONS)
    parser.add_argument("--explain", action="store_true", help="say below each table what its columns are")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables (docs/format/status.md)")
    parser.add_argument(
        "--watch", nargs="?", type=_seconds_or_where, const=_EVERY_S, metavar="SECONDS",
        help=f"again every so often, until a key is pressed; default: {_EVERY_S:g}; in a pipe a line each time",
    )  # fmt: skip
    money.add_flags(parser)
    parser.set_defaults(run=_run)


def _seconds_or_where(text: str) -> float | str:
    """`--watch WHERE` reads as if WHERE were the seconds."""
    try:
        value = float(text)
    except ValueError:
        if ":" in text or os.sep in text or not text[:1].isdigit():
            return text
        value = math.nan
    if not _LEAST_S <= value <= _MOST_S:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)} is not a number of seconds from {_LEAST_S:g} to {_MOST_S:g}"
        )
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and 0 < int(text) <= _MOST_SESSIONS):
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number from 1 to {_MOST_SESSIONS}")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    token, prices = calls.token(arguments), money.given(arguments)
    if isinstance(arguments.watch, str):
        if arguments.where or arguments.service:
            raise errors.InvalidArgumentError(f"--watch={printable(arguments.watch)}: not a number of seconds")
        arguments.where, arguments.watch = arguments.watch, _EVERY_S
    if arguments.watch is not None:
        return _watch(arguments, calls.where(arguments), token, prices)
    found = named_or_running(calls.given(arguments))
    told = [_told(where, token, arguments.sessions, prices) for where in found]
    if arguments.json:
        print(json.dumps(told[0] if not told[1:] else {"running": told}))
        return 0
    status_view.show_all(found, told, calls.console(), arguments.explain)
    return 0


def _watch(arguments: argparse.Namespace, where: str, token: str, prices: money.Prices) -> int:
    """Raises InvalidArgumentError: `where` can be nothing. What is only not there yet is waited for."""
    with contextlib.suppress(errors.NotFoundError, errors.DataLossError):
        coordinator_address(where)
    collected, unfollowed = _told if arguments.json else collect, Unfollowed()
    with KeptChannels() as kept, Lookout(where, token, kept) as lookout:
        once = partial(collected, where, token, arguments.sessions, prices, kept=kept, unfollowed=unfollowed)
        sparing = Sparing(once, prices)
        watched = watching.as_json if arguments.json else watching.watch
        return watched(lambda: lookout.look(sparing.collect), arguments.watch)


def status(
    service: str | os.PathLike[str] | None = None,
    *,
    sessions: int = _SESSIONS,
    auth_token_file: str | os.PathLike[str] | None = None,
    store_price: float = 0.0,
    request_price: float = 0.0,
) -> dict[str, Any]:
    """What `tfquiver status --json` says, as plain values; sizes are in bytes. TensorFlow is not imported.

    ```python
    told = tfquiver.status("~/tfquiver-cache")
    print(told["hit_ratio"], told["saved"]["bytes"], *told["problems"])
    ```

    docs/format/status.md has its keys. Of a directory in which no node runs (`running` is False then): what it holds.

    Args:
      service: a coordinator's address, or a cache directory; None: what TFQUIVER_SERVICE names, or the node of this
        user that runs on this machine.
      sessions: how many, the newest first, from 1 to 100 000.
      auth_token_file: file with the cluster's token; None: what TFQUIVER_AUTH_TOKEN_FILE names.
      store_price: of a TB that leaves the store, in any currency; `saved` then has `money`.
      request_price: of a million requests to the store.

    Raises InvalidArgumentError (also: several nodes run, and none is named), UnavailableError, PermissionError_,
    UnauthenticatedError.
    """
    if not 0 < sessions <= _MOST_SESSIONS:
        raise errors.InvalidArgumentError(f"sessions={sessions}: must be from 1 to {_MOST_SESSIONS}")
    where = one_named_or_running(service, "service=")
    token = own_token.of_user(os.fspath(auth_token_file) if auth_token_file else "")
    return _told(where, token, sessions, money.Prices(store_price, request_price))


def _told(
    where: str, token: str, sessions: int, prices: money.Prices, thorough: bool = True,
    kept: KeptChannels | None = None, unfollowed: Unfollowed | None = None,
) -> dict[str, Any]:  # fmt: skip
    if not cold.is_cold(where):
        return collect(where, token, sessions, prices, thorough, kept, unfollowed or Unfollowed())
    told = cold.collect(where)
    return told | {"saved": told["saved"] | {"money": prices.of(told["saved"])}}


def collect(
    where: str, token: str = "", sessions: int = _SESSIONS, prices: money.Prices = _FREE, thorough: bool = True,
    kept: KeptChannels | None = None, unfollowed: Unfollowed | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What the coordinator and its nodes say, as plain values (sizes in bytes).

    Args:
      thorough: False: without what takes a call for each node or data set: nodes have no counters but what the
        coordinator knows, data sets no settings.
      kept: of who asks again and again.
      unfollowed: looks how much there is of data sets that nobody has read; None: it is not told.

    Raises UnavailableError when the coordinator does not answer. A node that does not is listed with `error`.
    """
    up, address = up_away.collect(where), coordinator_address(where)
    try:
        found = _asked(address, token, sessions, thorough, kept, unfollowed)
    except errors.UnavailableError as error:
        of_up = up or up_away.at(address)
        if not (why := up_away.silent(of_up)):
            raise
        is_known = bool(up_away.said(of_up, "coordinator"))  # how it ended says more than that nobody listens there
        raise errors.UnavailableError(why if is_known else f"{why}; {error}") from error
    return sums.with_sums(found | {"up": up}, prices)


def _asked(
    address: str, token: str, sessions: int, thorough: bool, kept: KeptChannels | None, unfollowed: Unfollowed | None
) -> dict[str, Any]:
    """As `collect`, without what follows from it."""
    with calls.channel(address, kept=kept) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        whom = f"coordinator {address}"
        listed_nodes = calls.ask(stub.ListNodes, coordinator_pb2.ListNodesRequest(), token, whom)
        if kept is not None:
            kept.keep_only([address, *(node.control_address for node in listed_nodes.nodes)])
        told = list(_nodes(listed_nodes.nodes, token, kept) if thorough else map(_unasked, listed_nodes.nodes))
        for node, silent_ms in zip(told, listed_nodes.silent_ms, strict=False):  # an older coordinator tells none
            node["silent_ms"] = silent_ms
        away = unreached.nodes(told, address, asked=thorough)
        for node in told:
            node.pop("is_gone", None)
        asked = coordinator_pb2.ListDispatchersRequest()
        listed = calls.ask_if_known(stub.ListDispatchers, asked, token, whom)
        of_datasets = coordinator_pb2.ListDatasetsRequest(with_settings=thorough, unreached=away)
        datasets = calls.ask(stub.ListDatasets, of_datasets, token, whom)
        wanted = coordinator_pb2.ListSessionsRequest(limit=sessions)
        infos = pages.sessions(lambda page: calls.ask(stub.ListSessions, page, token, whom), wanted)
        limits = calls.ask_if_known(stub.ListRemoteIO, coordinator_pb2.ListRemoteIORequest(), token, whom)
        cached = calls.settings(stub, datasets, token, whom) if thorough else list(map(_unset, datasets.datasets))
        if thorough:
            named = named_datasets_pb2_grpc.NamedDatasetsStub(channel)
            cached = names_of.marked_old(lambda call, request: calls.ask(call, request, token, whom), named, cached)
        if unfollowed is not None:
            cached = unfollowed.known(channel, cached, token, whom, away)
    names = {dataset.digest_id: dataset.name for dataset in datasets.datasets}
    newest = [with_state(plain(info) | {"dataset": names.get(info.digest_id, "")}) for info in infos]
    return {
        "coordinator": address,
        "coordinator_up_ms": listed_nodes.up_ms,
        "awaited_nodes": len(listed_nodes.awaited),
        "coordinator_trouble": listed_nodes.log_trouble,
        "policy_trouble": listed_nodes.policy_trouble,
        "nodes": told,
        "lost_nodes": [_lost(one) for one in listed_nodes.lost],
        "dispatchers": [plain(one) for one in listed.dispatchers] if listed else [],
        "lost_dispatchers": [plain(one) for one in listed.lost] if listed else [],
        "datasets": cached,
        "sessions": newest,
        "remote_io": [plain(one) for one in limits.jobs] if limits else [],
        "store": plain(limits.store) if limits and limits.HasField("store") else None,
        "mounts": mounts_view.collect(),
    }


def with_state(session: dict[str, Any]) -> dict[str, Any]:
    """`ended` is the coordinator's word; `state` is what it comes to."""
    return session | {"state": words.state(session)}


def _unset(dataset: types_pb2.Dataset) -> dict[str, Any]:
    return plain(dataset) | {"cache": {"mode": "unset"}}


def _unasked(node: types_pb2.NodeInfo) -> dict[str, Any]:
    return {**plain(node), "host": words.host(node.control_address, socket.gethostname())}


def _lost(lost: coordinator_pb2.LostNode) -> dict[str, Any]:
    told = _unasked(lost.node) | {"silent_ms": lost.silent_ms}
    told.pop("disk_room_bytes", None)  # of a moment ago: what its disk has now nobody knows
    return told


def with_others(node: dict[str, Any]) -> dict[str, Any]:
    """Of one whose disk is full, and that runs here: who else has it. (Another machine's may be called the same.)"""
    if not (directory := node.get("cache_dir")) or not nodes_view.is_full(node):
        return node
    if node_id_in(Path(directory)) != node["node_id"]:
        return node
    others = list(map(str, caches_on_this_disk.others(Path(directory))))
    return node | ({"disk_shared_with": others} if others else {})


def _nodes(nodes: Sequence[types_pb2.NodeInfo], token: str, kept: KeptChannels | None) -> Iterator[dict[str, Any]]:
    """All at once: a node that is dead, or hangs, must not hold up what is said of the others."""
    for at in range(0, len(nodes), calls.AT_ONCE):
        some = nodes[at : at + calls.AT_ONCE]
        silent = list[str]()
        with ExitStack() as stack:
            questions: list[calls.Asked] = []
            for node in some:
                channel = calls.node_channel(node.control_address, kept)
                stub: Any = node_pb2_grpc.NodeStub(stack.enter_context(channel))
                whom = f"node {words.short(node.node_id)} at {node.control_address}"
                questions.append((stub.Status, node_pb2.StatusRequest(), whom))
            for node, reply in zip(some, calls.ask_all(questions, token, wait_for_ready=False), strict=True):
                reply = calls.from_node(
                    node.node_id, reply, f"node {words.short(node.node_id)} at {node.control_address}"
                )
                where = {"host": words.host(node.control_address, socket.gethostname())}
                if isinstance(reply, errors.TfquiverError):
                    silent.append(node.control_address)
                    yield {**plain(node), **where, "error": str(reply), "is_gone": isinstance(reply, calls.GoneError)}
                    continue
                counters = plain(reply)
                yield with_others({**counters.pop("node"), **where, **counters})
        if kept is not None:
            for address in silent:
                kept.drop(address)
