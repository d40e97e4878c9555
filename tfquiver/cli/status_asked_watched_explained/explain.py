"""`tfquiver explain`: why a job or a data set has the cache and the bandwidth that it has."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rich.console import Console

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.calls import cut, table
from tfquiver.cli.status_asked_watched_explained import explained_names
from tfquiver.cli.status_tables_and_warnings import fitting, words
from tfquiver.cluster_address import service_name
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

_ABOUT = """Says what a job or a data set gets, what it would get with more cache or bandwidth, which measurement and
which rule decided, and what was tried and refused. `tfquiver dataset set-cache` and `limit` change it."""
_COLUMNS = (
    "hits: so much of what is read comes from the cache. reads: a second. from store: of what it reads. limit: of that "
    "(tfquiver limit)."
)
_LEGEND = (
    "The first row is measured: cached is what is on the nodes' disks, the others are of the last ten seconds or so. "
    "The other rows are expected, once that much has been read into the cache, of the same jobs, and where they wait "
    "for nothing but the store or a cache as slow as now: once full by the plan in force, those "
    "below by another one, in which a data set may have less of a larger cache. Of several nodes' quotas a "
    "twentieth is not shared out: shards do not spread evenly over them. cooperative: chunks rotate for all jobs "
    "together; uniform: what comes first is kept, up to that; of both what it takes on disks at most, where "
    "compressing makes nothing smaller; >=: not known, for it has only been seen to wait; at "
    f"least what it reads now. {_COLUMNS}"
)
_LEGEND_FINISHED = (
    f"As it was measured while it read; cached: what was to be kept of its data set then. {_COLUMNS} hits are those of "
    "all that it was handed, rates those of the end."
)
_LAST = 10  # decisions
_FROM_0 = " (epochs count from 0)"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("explain", description=_ABOUT)
    what = (
        "a name that `tfquiver status` and `dataset list` show, or the first digits of a data set's digest; none, or "
        "WHERE alone (a coordinator's host:port, a cache directory): lists those of which there is something to say. "
        "Beside a name WHERE is given as --service"
    )
    parser.add_argument("name", nargs="?", default="", metavar="JOB|DATASET", help=what)
    calls.add_where(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object; sizes in bytes, rates in bytes/s")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    name = arguments.name
    if not arguments.service and service_name.is_where(name):
        try:
            return _explained(arguments)
        except (errors.NotFoundError, errors.InvalidArgumentError):  # nothing is called so: WHERE is meant
            arguments.service, arguments.name = name, ""
    return _explained(arguments)


def _explained(arguments: argparse.Namespace) -> int:
    address = coordinator_address(calls.where(arguments))
    with calls.channel(address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        token, whom = calls.token(arguments), f"coordinator {address}"
        if not arguments.name:
            known = explained_names.known(stub, token, whom)
            if arguments.json:
                print(json.dumps(known))
            else:
                for line in explained_names.lines(known):
                    _say(calls.console(), line, "")
            return 0
        try:
            try:
                told = _ask(stub, arguments.name, token, whom)
            except errors.NotFoundError:
                if not (other := explained_names.first_used_as(channel, arguments.name, token, whom)):
                    raise
                told = _ask(stub, other, token, whom)
        except errors.NotFoundError as error:
            raise errors.NotFoundError(explained_names.shown(str(error), stub, token, whom)) from error
        if not arguments.json:
            told = explained_names.shown(told, stub, token, whom, is_json=True)
    if arguments.json:
        print(told)
    else:
        show(json.loads(told), calls.console())
    return 0


def _placement(placed: Mapping[str, Any]) -> str:
    nodes = f"kept on {many(len(placed['nodes']), 'node')}, those of {plain(placed['selector']) or 'all'}"
    copies = f", {placed['replicas']} of each shard" if placed["replicas"] > 1 else ""
    racks = ", each rack by itself" if placed["rack_local"] else ""
    shards, size = placed["moving_shards"], of_bytes(placed["moving_bytes"])
    moving = f"; {many(shards, 'shard')} ({size}) still to move there" if shards else ""
    return f"{nodes}{copies}{racks}{moving}"


def _ask(stub: Any, name: str, token: str, whom: str) -> str:
    """By a name that the coordinator knows, that `tfquiver status` shows of a job without one, or that the job's own
    code has: the coordinator's begins with its token's."""
    try:
        return str(calls.ask(stub.Explain, coordinator_pb2.ExplainRequest(name=name), token, whom).json)
    except errors.NotFoundError:
        sessions = calls.ask(stub.ListSessions, coordinator_pb2.ListSessionsRequest(), token, whom).sessions
        meant = explained_names.meant(name, [calls.plain(info) for info in sessions])
        if len(meant) != 1:
            if unread := explained_names.unread(stub, name, token, whom):
                return json.dumps(unread)
            raise
    return str(calls.ask(stub.Explain, coordinator_pb2.ExplainRequest(name=meant.pop()), token, whom).json)


def show(told: Mapping[str, Any], console: Console) -> None:
    """Every name in it was chosen by somebody else."""
    if told.get("decided") is False:
        _say(console, explained_names.nothing(told["name"]), "")
        return
    kind = "data set" if told["kind"] == "dataset" else "job"
    finished, idle = told.get("finished"), told.get("idle")
    since = f" ended {_date(time.time() - finished['ago_s'])}" if finished else ""
    _say(console, f"{kind} {plain(told['name'])}{since}, by policy {plain(told['policy'])}", "")
    if trouble := told.get("trouble"):
        _say(console, plain(trouble))
    if idle:
        _say(console, _idle(idle))
    for reason in told["reasons"].values():
        _say(console, plain(reason))
    if told["refused"]:
        _say(console, f"not carried out: {plain(told['refused'])}")
    if resident := told.get("resident"):
        _say(console, _resident(resident))
    if computed := told.get("computed"):
        _say(console, _computed(computed))
    if placed := told.get("placement"):
        _say(console, _placement(placed))
    if store := words.store(told.get("store") or {}):
        _say(console, store)
    for job, probe in told.get("probes", {}).items():
        _say(console, _probe(plain(job), probe))
    for job, steps in told.get("steps", {}).items():
        _say(console, _steps(plain(job), steps))
    if more_jobs := told.get("more_jobs"):
        _say(console, f"and {many(more_jobs, 'job')} more: tfquiver explain JOB says it of each")
    if finished and finished.get("next_run"):
        _say(console, f"next run: {plain(finished['next_run'])}")
    shares = table("", "cached", "hits", "reads", "from store", "limit")
    if now := told.get("now"):
        shares.add_row("at last" if idle else "now", *_measured(now, told.get("resident")))
    shares.add_row("at last" if finished else "once full", *_cells(told["gets"]))
    for more in told["with_more"]:
        what = f"{more['cache']:g} x cache" if more["cache"] != 1 else f"{more['remote']:g} x bandwidth"
        shares.add_row(what, *_cells(more["share"]))
    console.print()
    console.print(shares)
    console.print(fitting.prose(_LEGEND_FINISHED if finished else _LEGEND, console.width), soft_wrap=True)
    if told["history"]:
        console.print()
        for one in told["history"][-_LAST:]:
            _say(console, _decision(one), "")


def _say(console: Console, text: str, begins: str = "  ") -> None:
    """A sentence, as wide as there is room; in a pipe it stays whole."""
    for line in fitting.wrapped(text, console.width, begins, "    "):
        console.print(line, highlight=False, soft_wrap=True)


def _probe(job: str, probe: Mapping[str, Any]) -> str:
    waits = f"; not again yet: {plain(probe['waits_for'])}" if probe["waits_for"] else ""
    if "benefit" not in probe:
        return f"{job}: not probed yet{waits.replace('; not again yet', '')}"
    benefit, how = probe["benefit"], "what it did" if probe["basis"] == "hit" else "how long it waited"
    rates = f"{_rate(probe['hit_bytes_per_s'])} from the cache, {_rate(probe['miss_bytes_per_s'])} from the store"
    return (
        f"{job}: probed: {benefit['value']:.2f} x as fast from the cache ({benefit['low']:.2f} to "
        f"{benefit['high']:.2f}; {rates}, by {how}){waits}"
    )


def _resident(resident: Mapping[str, Any]) -> str:
    """Of the data set, by ResidentShare."""
    here, whole = resident["resident_bytes"], resident["size_bytes"]
    chunks = (
        f", {resident['resident_chunks']} of {many(resident['chunks'], 'chunk')} whole" if resident["chunks"] else ""
    )
    when = "cached now" if not resident["age_s"] else "cached when it was last read"
    return f"{when}: {words.share(here, whole)} of the data set ({of_bytes(here)} of {of_bytes(whole)}){chunks}"


def _computed(computed: Mapping[str, Any]) -> str:
    """Of a derived data set."""
    shards = max(1, computed["shards"])
    cpu, saved = computed["cpu_s"] / shards, computed["saved_cpu_s"] / shards
    pays = f"keeping it saves {saved:.3g} s of CPU a shard" if computed["pays"] else "keeping it saves no CPU"
    return (
        f"computed, measured on {many(computed['shards'], 'shard')}: {cpu:.3g} s of CPU for one, reading what it "
        f"became {cpu - saved:.3g} s; {of_bytes(computed['made_bytes'] // shards)} in place of "
        f"{of_bytes(computed['input_bytes'] // shards)}; one process computes {_rate(computed['bytes_per_s'])}: {pays}"
    )


def _steps(job: str, steps: Mapping[str, Any]) -> str:
    who = f"{many(steps['accelerators'], 'accelerator')} in {many(steps['processes'], 'process', 'processes')}"
    if steps["step_s"] is None:
        return f"{job}: {who}"
    records = f" of {many(steps['batch_records'], 'record')}" if steps["batch_records"] else ""
    share = steps["waited_share"]
    waited = "" if share is None else f", {share:.0%} of its time without data"
    times = f"{1000 * steps['step_s']:.3g} ms and {1000 * steps['between_s']:.3g} ms until the next"
    return f"{job}: {who}; steps{records}: {times}{waited}"


def _idle(idle: Mapping[str, Any]) -> str:
    """Of a job: whether it goes on nobody knows yet."""
    far = ""
    if idle.get("whole"):
        far = f": it has read epoch {idle['epoch']} to the end{_FROM_0}"
    elif "epoch" in idle:
        far = f": of epoch {idle['epoch']} {idle['acked']} of {many(idle['shards'], 'shard')} are confirmed{_FROM_0}"
    return (
        f"nobody has read it for {many(int(idle['ago_s']), 'second')}{far}. Half a minute after its last reader it "
        "counts as ended; what follows is what its next epoch, or its next run, would find"
    )


def _measured(now: Mapping[str, Any], resident: Mapping[str, Any] | None) -> tuple[str, ...]:
    """As `_cells`."""
    cached = "-"
    if resident:
        share = words.share(resident["resident_bytes"], resident["size_bytes"])
        cached = f"{words.size(resident['resident_bytes'])}, {share}"
    reads = _expected(now["reads_bytes_per_s"], True)
    if now["hit_ratio"] is None:
        return cached, "-", reads, "-", "-"
    return cached, f"{now['hit_ratio']:.0%}", reads, _expected(now["remote_bytes_per_s"], True), "-"


def _cells(share: Mapping[str, Any]) -> tuple[str, ...]:
    limit = share["limited_to_bytes_per_s"]
    return (
        _allocation(share["allocation"]),
        f"{share['hit_ratio']:.0%}",
        _expected(share["reads_bytes_per_s"], known := share.get("known", True)),
        _expected(share["remote_bytes_per_s"], known or share["hit_ratio"] >= 1),
        "-" if limit is None else _rate(limit),
    )


def _decision(one: Mapping[str, Any]) -> str:
    when = _date(one["at_s"])
    why = "; ".join(part for part in (one["rule"], one["refused"]) if part)
    if one.get("kind") == "plan":
        return f"{when}  policy {cut(plain(one['name']), 40)}: not carried out ({plain(why)})"
    nothing = "no limit" if one.get("kind") == "job" else "-"
    was, becomes = (_value(one[key], nothing) for key in ("was", "becomes"))
    if one.get("kind") == "policy" and one["refused"]:
        return f"{when}  policy: {was} refused, {becomes} decides ({plain(why)})"
    of = "policy" if one.get("kind") == "policy" else cut(plain(one["name"]), 40)
    return f"{when}  {of}: {was} -> {becomes} ({plain(why)})"


def _value(value: Any, nothing: str) -> str:
    if isinstance(value, dict):
        return _allocation(value)
    return _rate(value) if isinstance(value, int | float) else plain(str(value or nothing))


def _rate(bytes_per_s: float) -> str:
    return f"{of_bytes(int(bytes_per_s)) if bytes_per_s >= 1 else '0 B'}/s"


def _expected(bytes_per_s: float, known: bool) -> str:
    rate = f"{words.size(int(bytes_per_s))}/s"  # short: the table is read in 80 columns
    if known:
        return rate
    return f">= {rate}" if bytes_per_s else "not known"


def _allocation(allocation: Mapping[str, Any]) -> str:
    if allocation["mode"] == "none":
        return "none"
    return f"{plain(allocation['mode'])} {of_bytes(allocation['cache_bytes'])}"


def _date(at_s: float) -> str:
    return datetime.fromtimestamp(at_s).strftime("%Y-%m-%d %H:%M:%S")
