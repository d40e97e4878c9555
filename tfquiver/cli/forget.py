"""`tfquiver forget`: nodes and dispatchers that are gone for good, so that nobody is told of them any more."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1 import coordinator_pb2

_ABOUT = """Says that lost nodes and dispatchers are gone for good: `tfquiver status`, metrics and alerts miss them no
more, also after a restart of the coordinator. A node that has not come back since such a restart may be named, too; it
is lost in some seconds, and --all_lost waits for that. They are forgotten by themselves after an hour, dispatchers
after a day. One that is heard of is not forgotten; one that comes back all the same is a member as ever. Nodes whose
machines may be taken away at any time are not missed when they are started with --labels=lifecycle=spot. Prometheus
scrapes what its configuration names: take machines that are gone out of its targets, too, or TfquiverServerDown goes
on. Takes an admin's token."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("forget", description=_ABOUT)
    which = parser.add_mutually_exclusive_group(required=True)
    # nargs "*" in such a group wants a default
    which.add_argument("names", nargs="*", default=[], metavar="NAME", help="a lost node, as `tfquiver status` calls "
                       "it, by its id or the beginning of that, or host:port of a lost node or dispatcher")  # fmt: skip
    which.add_argument("--all_lost", action="store_true", help="all nodes and dispatchers that are lost")
    calls.add_where(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    with calls.coordinator(arguments) as (stub, token, whom):
        nodes = calls.ask(stub.ListNodes, coordinator_pb2.ListNodesRequest(), token, whom)
        asked = coordinator_pb2.ListDispatchersRequest()
        dispatchers = calls.ask_if_known(stub.ListDispatchers, asked, token, whom)
        request = wanted(arguments.names, nodes, dispatchers or coordinator_pb2.ListDispatchersReply())
        request.all_lost = arguments.all_lost
        told = calls.ask_if_known(stub.Forget, request, token, whom)
    if told is None:
        raise errors.InvalidArgumentError(
            f"{whom} is older than this command: lost nodes are forgotten by themselves after an hour, dispatchers "
            "after a day"
        )
    at = _missed(nodes)
    for node_id in told.node_ids:
        where = f" at {at[node_id]}" if at.get(node_id) else ""
        print(f"node {words.short(node_id)}{plain(where)} is forgotten")
    for dispatcher in told.dispatchers:
        print(f"dispatcher {plain(dispatcher)} is forgotten")
    if not told.node_ids and not told.dispatchers:
        print("nothing is lost")
    return 0


def wanted(
    names: Iterable[str], nodes: coordinator_pb2.ListNodesReply, dispatchers: coordinator_pb2.ListDispatchersReply
) -> coordinator_pb2.ForgetRequest:
    """Of each name, what it means. Raises NotFoundError: nothing; InvalidArgumentError: several."""
    missed = _missed(nodes)
    # Those that are heard of, too: the coordinator says why it does not forget them.
    alive = {one.node_id: one.control_address for one in nodes.nodes}
    addresses = {one.address for one in dispatchers.lost} | {one.address for one in dispatchers.dispatchers}
    request = coordinator_pb2.ForgetRequest()
    for name in names:
        if name in addresses:
            request.dispatchers.append(name)
            continue
        for known in (missed, alive):
            if name in known:
                found = [name]  # another's may begin with it
                break
            if found := [node_id for node_id, address in known.items() if _means(name, node_id, address)]:
                break
        else:
            raise errors.NotFoundError(
                f"no node or dispatcher {plain(name)!r} is lost: `tfquiver status` names those that are; they are "
                "forgotten by themselves after an hour, dispatchers after a day"
            )
        if found[1:]:
            raise errors.InvalidArgumentError(
                f"{plain(name)!r} may be each of {len(found)} nodes: give more of its id, as `tfquiver status --json` "
                "has it"
            )
        request.node_ids.append(found[0])
    return request


def _missed(nodes: coordinator_pb2.ListNodesReply) -> dict[str, str]:
    """Where those are that are lost, or would be soon: who has not come back since the coordinator was started."""
    return {one.node_id: one.control_address for one in (*nodes.awaited, *(lost.node for lost in nodes.lost))}


def _means(name: str, node_id: str, address: str) -> bool:
    """A name of nothing means none."""
    return bool(name) and (name == address or node_id.startswith(name) or words.short(node_id).startswith(name))
