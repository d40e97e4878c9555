"""`tfquiver dataset place | suggest`: on which nodes a data set is kept, and where a job would find it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.status_tables_and_warnings.words import short
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, types_pb2
from tfquiver.shard_owners_chunks_hash_prefixes import selector
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

# Of parsed arguments: to ask, the coordinator, and the data set that is named.
Find = Callable[[argparse.Namespace], AbstractContextManager[tuple[Callable[..., Any], Any, types_pb2.Dataset]]]

Others = Callable[[argparse.Namespace, bytes], list[str]]  # what else the content of a digest id is called

_PLACE = f"""Says on which nodes a data set is kept from now on, and how often. What is elsewhere moves, node to node,
at the rate of --move_bytes_per_s of the nodes; readers are sent to the old place until then. What no option names stays
as it is. Without any option: shows what there is. SELECTOR: {selector.SYNTAX},
several with commas between; of labels that nodes were started with
(tfquiver-node --labels=rack=r1,disk=nvme)."""
_SUGGEST = """Says how much of a data set a job would find on each machine, in its rack, elsewhere; the best first. A
candidate is a node's id, its `host` label, or the host of its address; all nodes when none is named."""
_SET_S = 30.0  # after a coordinator's restart the nodes that come back are waited for
_SCORES_LEGEND = (
    "node: none: no node runs there. score: 1: all of it is on the node itself; 0: all of it has to come from the "
    "store. rack: on other nodes of its rack. elsewhere: on nodes outside of it. missing: on no node. planned: of the "
    "missing, what the node or its rack is to keep once it is read."
)


def add_commands(commands: Any, find: Find, others: Others) -> None:
    place = commands.add_parser("place", help="say on which nodes a data set is kept", description=_PLACE)
    place.add_argument("--nodes", metavar="SELECTOR", help="by labels, for example rack=r1,disk=nvme; '': all nodes")
    place.add_argument(
        "--stripe", type=_count_or_all, metavar="K", help="at most so many of them, or of each rack; 0: all"
    )
    place.add_argument("--replicas", type=_count, metavar="R", help="so many nodes keep each shard")
    place.add_argument(
        "--rack-local", action=argparse.BooleanOptionalAction, default=None, help="each rack is a cache of its own"
    )
    place.add_argument("--anywhere", action="store_true", help="take the placement away")
    place.set_defaults(run=lambda arguments: _place(arguments, find, others))
    suggest = commands.add_parser("suggest", help="where a job would find most of a data set", description=_SUGGEST)
    suggest.add_argument("--candidates", default="", metavar="A,B", help="machines to choose from; default: all nodes")
    suggest.add_argument("--job", default="", help="its name")
    suggest.set_defaults(run=lambda arguments: _suggest(arguments, find))
    for command in (place, suggest):
        command.add_argument("name", metavar="NAME", help="its name, or the first digits of its digest id")
        calls.add_where(command)
        command.add_argument("--json", action="store_true", help="one JSON object instead of tables")


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 10000")
    return int(text)


def _count_or_all(text: str) -> int:
    return 0 if text == "0" else _count(text)


def _place(arguments: argparse.Namespace, find: Find, others: Others) -> int:
    asked = {
        "selector": arguments.nodes, "stripe": arguments.stripe, "replicas": arguments.replicas,
        "rack_local": arguments.rack_local,
    }  # fmt: skip
    named = {field: value for field, value in asked.items() if value is not None}
    if arguments.anywhere and named:
        raise errors.InvalidArgumentError("--anywhere takes the placement away: give no other option with it")
    with find(arguments) as (ask, stub, dataset):
        if arguments.anywhere:
            told = plain(ask(stub.SetPlacement, coordinator_pb2.SetPlacementRequest(digest_id=dataset.digest_id)))
        elif named:
            told = plain(change(ask, stub, dataset.digest_id, named))
        else:
            told = plain(ask(stub.GetPlacement, coordinator_pb2.GetPlacementRequest(digest_id=dataset.digest_id)))
    if arguments.json:
        print(json.dumps(told))
        return 0
    print(f"{dataset.name} is kept on {text(told)}")
    if same := others(arguments, dataset.digest_id):
        print(f"{', '.join(same)}: of the same content, and so kept there, too")
    if moving := progress(told):
        print(moving)
    return 0


def change(
    ask: Callable[..., Any], stub: Any, digest_id: bytes, named: Mapping[str, Any]
) -> coordinator_pb2.PlacementReply:
    """Its rule with other values of the fields that are named; also where somebody else changes others meanwhile."""
    there = coordinator_pb2.GetPlacementRequest(digest_id=digest_id)
    before: coordinator_pb2.PlacementReply = ask(stub.GetPlacement, there)
    while True:
        request = coordinator_pb2.SetPlacementRequest(digest_id=digest_id, rule=before.rule)
        for field, value in named.items():
            setattr(request.rule, field, value)
        request.expected.SetInParent()
        if before.HasField("rule"):
            request.expected.rule.CopyFrom(before.rule)
        try:
            reply: coordinator_pb2.PlacementReply = ask(stub.SetPlacement, request, _SET_S)
        except errors.TfquiverError:
            now: coordinator_pb2.PlacementReply = ask(stub.GetPlacement, there)
            if (now.HasField("rule"), now.rule) == (before.HasField("rule"), before.rule):
                raise
            before = now
        else:
            return reply


def _suggest(arguments: argparse.Namespace, find: Find) -> int:
    names = [name for name in arguments.candidates.split(",") if name]
    with find(arguments) as (ask, stub, dataset):
        request = coordinator_pb2.SuggestPlacementRequest(digest_id=dataset.digest_id, job=arguments.job)
        for name in names:
            request.candidates.add(name=name)
        reply = ask(stub.SuggestPlacement, request)
    if arguments.json:
        print(json.dumps(calls.plain(reply)))
        return 0
    table = calls.table("machine", "node", "score", "on it", "rack", "elsewhere", "missing", "planned")
    for one in reply.scores:
        fields = ("node_bytes", "rack_bytes", "elsewhere_bytes", "missing_bytes", "planned_bytes")
        node = short(one.node_id) if one.node_id else "none"
        sizes = (of_bytes(getattr(one, name)) for name in fields)
        table.add_row(calls.cut(one.name, 40), node, f"{one.score:.2f}", *sizes)
    calls.console().print(table)
    calls.console().print(_SCORES_LEGEND)
    return 0


def plain(reply: coordinator_pb2.PlacementReply) -> dict[str, Any]:
    """`rule` is None where it has none."""
    told = calls.plain(reply)
    if not reply.HasField("rule"):
        return {"rule": None, "places": None, "moves": []}
    return told


def text(placed: dict[str, Any]) -> str:
    """The nodes, and how it is kept there."""
    rule = placed["rule"]
    if rule is None:
        return "any node: each shard where it came first, or its owner among all"
    groups = placed["places"]["groups"]
    names = "; ".join(
        (f"rack {group['rack']}: " if rule["rack_local"] else "") + ", ".join(map(short, group["node_ids"]))
        for group in groups
    )
    chosen = f"{rule['selector'] or 'all nodes'}" + (f", at most {rule['stripe']}" if rule["stripe"] else "")
    copies = f"; {rule['replicas']} of each shard" if rule["replicas"] > 1 else ""
    return f"{names or 'no node: none that lives matches'} ({chosen}{copies})"


def progress(placed: dict[str, Any]) -> str:
    """What is still to move; empty where nothing is."""
    reports = [one["report"] for one in placed["moves"]]
    shards, size_bytes = (sum(int(one[key]) for one in reports) for key in ("to_come_shards", "to_come_bytes"))
    going, no_room = (sum(int(one[key]) for one in reports) for key in ("to_go_shards", "no_room_shards"))
    said = []
    if shards and placed.get("settled"):
        these = f"{many(shards, 'shard')} ({of_bytes(size_bytes)})"
        return f"no room there for {these}: what has none stays where it is"
    if shards:
        said.append(f"{many(shards, 'shard')} ({of_bytes(size_bytes)}) to move")
    if no_room:
        said.append(f"{many(no_room, 'of them finds', 'of them find')} no room")
    if going:
        said.append(f"{going} to be given up where they were")
    return ", ".join(said)
