"""A cluster: coordinator and nodes answer, each other too, where others find them; clocks, versions, token."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.doctor import versions
from tfquiver.cli.doctor.finding import Finding, fail, ok, skip, warn
from tfquiver.cli.status_asked_watched_explained import up_away
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.grpc_plumbing import addresses
from tfquiver.plain_text import of_error, plain
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, node_pb2, node_pb2_grpc, types_pb2
from tfquiver.server_reachability import unreached
from tfquiver.shard_owners_chunks_hash_prefixes.labels import is_spot
from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.version import VERSION

_SKEW_MS = 2000
_PEERS_EACH = 16
_MOST_NODES = 64  # that are asked to try others; each opens connections
_MOST_NAMED = 5
_NO_TOKEN = (
    "this cluster can be looked at without one (where others use this machine, or reach its ports, give it tokens: "
    "docs/guide/security.md)"
)
_START = (
    "start it again (`tfquiver up` with its directory, where that ran it), or name another; `tfquiver health` asks it "
    "without a token"
)
_WAIT = "ask again in some seconds"
_REACH_S = 15.0  # a node that tries others waits ten for those that are silent


def findings(address: str, token: str, up: Mapping[str, Any] | None = None, again: str = "") -> Iterator[Finding]:
    """Stops where nothing further can be known.

    Args:
      up: the `tfquiver up` whose coordinator has that address, as up_away.collect has it.
      again: what brings the coordinator back, where that is known and no `up` does by itself.
    """
    what = f"coordinator {address}"
    try:
        with calls.channel(address) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            before_ms = time.time() * 1000
            told = calls.ask(stub.ListNodes, coordinator_pb2.ListNodesRequest(), token, what)
            after_ms = time.time() * 1000
            service = calls.ask_if_known(stub.ListDispatchers, coordinator_pb2.ListDispatchersRequest(), token, what)
    except errors.UnauthenticatedError as error:
        yield fail(
            "token",
            of_error(error),
            "give --auth_token_file or TFQUIVER_AUTH_TOKEN_FILE: a file with a token that is in the servers' file, too",
        )
        return
    except errors.TfquiverError as error:
        yield fail(what, of_error(error), brings_back(address, up, again))
        return
    yield ok(what, f"answers in {after_ms - before_ms:.0f} ms")
    yield ok("token", "accepted" if token else _NO_TOKEN)
    yield _version(what, told.version)
    yield _clock(what, told.now_ms, before_ms, after_ms)
    yield from _log(what, told)
    if service is not None:
        yield from versions.of_service(service.dispatchers)
    yield from _nodes(told, token, up)


def brings_back(address: str, up: Mapping[str, Any] | None, again: str) -> str:
    """A coordinator that does not answer there. `up`, `again`: as for `findings`."""
    return up_away.silent(up or up_away.at(address)) or again or _START


def _version(what: str, version: str) -> Finding:
    if version == VERSION:
        return ok(f"version of {what}", version)
    do = "make them one: servers of two versions understand one another in what both know, and no more"
    return warn(f"version of {what}", f"{plain(version) or 'older than it says'}; here it is {VERSION}", do)


def _clock(what: str, now_ms: int, before_ms: float, after_ms: float) -> Finding:
    what = f"clock of {what}"
    if not now_ms:
        return skip(what, "it does not say: it is older than that")
    off_ms = _off_ms(now_ms, before_ms, after_ms)
    if off_ms > _SKEW_MS:
        do = "synchronise clocks (chrony, systemd-timesyncd): else times of logs and metrics do not fit together"
        return warn(what, f"{off_ms / 1000:.1f} s from this machine's", do)
    return ok(what, "agrees with this machine's")


def _log(what: str, told: coordinator_pb2.ListNodesReply) -> Iterator[Finding]:
    if told.log_trouble:
        do = "look after the disk of its --work_dir: it decides nothing until then, and goes on by itself"
        yield fail(f"log of {what}", plain(told.log_trouble), do)
    if told.policy_trouble:
        do = "choose another policy (tfquiver policy NAME), or start the coordinator with another --policy"
        yield warn(f"policy of {what}", plain(told.policy_trouble), do)


def _off_ms(now_ms: int, before_ms: float, after_ms: float) -> float:
    return max(before_ms - now_ms, now_ms - after_ms, 0)


def _clocks(told: Sequence[tuple[str, int]], asked_ms: tuple[float, float]) -> Iterator[Finding]:
    """Of those that are wrong; the worst are named: where this machine's own clock is, all are."""
    wrong = [(_off_ms(now_ms, *asked_ms), now_ms, name) for name, now_ms in told]
    wrong = sorted((one for one in wrong if one[0] > _SKEW_MS), reverse=True)
    for _, now_ms, name in wrong[:_MOST_NAMED]:
        yield _clock(name, now_ms, *asked_ms)
    if more := wrong[_MOST_NAMED:]:
        do = "synchronise clocks; where nearly all are named, look at this machine's first"
        yield warn(
            f"clocks of {many(len(more), 'more node')}", f"up to {more[0][0] / 1000:.1f} s from this machine's", do
        )


def _nodes(told: coordinator_pb2.ListNodesReply, token: str, up: Mapping[str, Any] | None = None) -> Iterator[Finding]:
    away = up_away.known_as(up)  # of its node that is said, and no more
    nodes = [node for node in told.nodes if node.node_id not in away]
    if of_up := up_away.said(up, "node"):
        yield warn("nodes", of_up, _WAIT)
    missed = [one for one in told.lost if not is_spot(one.node.labels) and one.node.node_id not in away]
    if missed:
        names = _some([f"{words.short(one.node.node_id)} at {one.node.control_address}" for one in missed])
        do = (
            "start them again, with the flags that they had; until then jobs read from the store what they kept alone. "
            "Of machines that are gone for good: `tfquiver forget NODE ...`, or --all_lost; else they are forgotten "
            "when they have been silent for an hour"
        )
        yield warn("lost nodes", f"{len(missed)}: {names}", do)
    if spot := sum(is_spot(one.node.labels) for one in told.lost):
        yield ok("spot nodes", f"{many(spot, 'is', 'are')} gone, as they may be, in the last hour")
    storing = [node for node in nodes if node.quota_bytes]
    if not storing and of_up:
        return
    if not storing and (started := words.just_started(told.up_ms)):
        do = "ask again in some seconds: nodes come back to a coordinator by themselves"
        yield warn("nodes", f"none has come back yet: the coordinator {started}", do)
        return
    if not storing:
        yield fail("nodes", f"{len(nodes)}, none of which stores anything", "start tfquiver-node with a --quota")
        return
    yield ok("nodes", f"{many(len(nodes), 'node')}, of which {many(len(storing), 'keeps', 'keep')} data")
    yield _advertised(nodes)
    before_ms = time.time() * 1000
    replies = _ask_all(nodes, "Status", node_pb2.StatusRequest(), token)
    answers = [
        calls.from_node(node.node_id, reply, f"node {words.short(node.node_id)} at {node.control_address}")
        for node, reply in zip(nodes, replies, strict=True)
    ]
    yield from _answers(nodes, answers, (before_ms, time.time() * 1000))
    answering = [node for node, one in zip(nodes, answers, strict=True) if isinstance(one, node_pb2.StatusReply)]
    if sum(bool(node.data_address) for node in nodes) > 1:
        silent = {node.node_id for node in nodes} - {node.node_id for node in answering}
        yield from _reach(answering, token, silent | {one.node.node_id for one in told.lost})


def _advertised(nodes: Sequence[types_pb2.NodeInfo]) -> Finding:
    """Some say that they are on this very machine and others that they are not: the former are reached by none."""
    local = [node for node in nodes if node.data_address and not addresses.leads_elsewhere(node.data_address)]
    elsewhere = [node for node in nodes if node.data_address and addresses.leads_elsewhere(node.data_address)]
    if local and elsewhere:
        names = _some([f"{words.short(node.node_id)} ({node.data_address})" for node in local])
        return fail("advertised addresses", f"loopback: {names}", "give these nodes --advertise_host")
    return ok("advertised addresses", "all nodes are on one machine" if local else "none is a loopback address")


def _ask_all(
    nodes: Sequence[types_pb2.NodeInfo], method: str, request: Any, token: str, timeout_s: float = 0.0
) -> list[Any]:
    """What each says to a call of Node, as `calls.ask_all` has it."""
    answers = list[Any]()
    for at in range(0, len(nodes), calls.AT_ONCE):
        with ExitStack() as stack:
            questions: list[calls.Asked] = []
            for node in nodes[at : at + calls.AT_ONCE]:
                stub = node_pb2_grpc.NodeStub(stack.enter_context(calls.node_channel(node.control_address)))
                whom = f"node {words.short(node.node_id)} at {node.control_address}"
                questions.append((getattr(stub, method), request, whom))
            answers += calls.ask_all(questions, token, wait_for_ready=False, timeout_s=timeout_s)
    return answers


def _answers(
    nodes: Sequence[types_pb2.NodeInfo], answers: Sequence[Any], asked_ms: tuple[float, float]
) -> Iterator[Finding]:
    """`asked_ms`: between these all of them answered."""
    silent = [str(one) for one in answers if isinstance(one, errors.TfquiverError)]
    replies = [one for one in answers if isinstance(one, node_pb2.StatusReply)]
    if silent and all(unreached.REFUSED in one for one in silent):
        do = (
            "look at the end of their logs (`tfquiver logs` on their machines) for what has ended them; give each that "
            "runs an --advertise_host that leads to it"
        )
        yield fail("nodes answer", f"{len(silent)} of {len(nodes)} do not: {_some(silent)}", do)
    elif silent:
        do = (
            "open their control ports to this machine, give each an --advertise_host that leads to it, or look whether "
            "they hang (`tfquiver health ADDRESS`)"
        )
        yield fail("nodes answer", f"{len(silent)} of {len(nodes)} do not: {_some(silent)}", do)
    else:
        yield ok("nodes answer", f"all {len(nodes)}")
    yield from _clocks(
        [
            (f"node {words.short(node.node_id)}", one.now_ms)
            for node, one in zip(nodes, answers, strict=True)
            if isinstance(one, node_pb2.StatusReply) and one.now_ms
        ],
        asked_ms,
    )
    yield from versions.of("nodes", [one.version for one in replies])


def _reach(nodes: Sequence[types_pb2.NodeInfo], token: str, told: Collection[str] = ()) -> Iterator[Finding]:
    """Each of some nodes tries some others. `nodes`: those that answer; `told`: the ids of those that do not, which is
    told already: that nobody reaches them says nothing of ports."""
    what = "nodes reach one another"
    request = node_pb2.ReachPeersRequest(most=_PEERS_EACH)
    tried, closed, older, away, wrong, slowest_us = 0, 0, 0, 0, [], 0
    asked = nodes[:_MOST_NODES]
    for node, reply in zip(asked, _ask_all(asked, "ReachPeers", request, token, _REACH_S), strict=True):
        if isinstance(reply, errors.PermissionError_):
            yield skip(what, "not tried: that is for admins", "give --auth_token_file with the token of one")
            return
        if isinstance(reply, errors.TfquiverError):
            if calls.is_unknown(reply):
                older += 1
            else:
                wrong.append(of_error(reply))
            continue
        for peer in reply.peers:
            if peer.error and peer.node_id in told:
                away += 1
                continue
            tried, slowest_us = tried + 1, max(slowest_us, peer.took_us)
            if peer.error:
                closed += 1
                wrong.append(f"{words.short(node.node_id)} does not reach {plain(peer.error)}")
    if wrong:
        do = "open the data ports between nodes (--data_port fixes one), and give each an --advertise_host of use"
        how = f"{closed} of {_ways(tried)} closed" if closed else "not all were asked"
        yield fail(what, f"{how}: {_some(wrong)}", do)
    elif tried:
        said = f"{_ways(tried)} tried, the slowest took {slowest_us / 1000:.0f} ms"
        yield ok(
            what,
            said
            + (f"; {many(older, 'node is older, and was', 'nodes are older, and were')} not asked to" if older else ""),
        )
    elif not nodes:
        yield skip(what, "not tried: no node answers", "mend that first")
    elif away:
        yield skip(what, "not tried: no other node answers", "mend that first")
    elif older:
        yield skip(what, "not tried: these nodes are older than this question", "upgrade them")
    else:
        do = "ask again in some seconds: a node hears of others with its next heartbeat"
        yield skip(what, "not tried: the nodes that were asked know of no other yet", do)


def _ways(count: int) -> str:
    return f"{count} way{'s' * (count != 1)}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return "; ".join(plain(name) for name in names[:_MOST_NAMED]) + more
