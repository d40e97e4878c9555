"""`tfquiver dataset list | show | set-cache | share | delete`: all data sets, their caching, whose they are."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cli.dataset_commands import cache_setting, names, placing, states
from tfquiver.cli.dataset_commands import commands as named
from tfquiver.cli.status_asked_watched_explained import explained_names
from tfquiver.cli.status_asked_watched_explained.unfollowed import Unfollowed
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, named_datasets_pb2, types_pb2
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

_LEAST_DIGITS = 6
_UNSET = ("auto", "unset")
_NO_TOKENS = (
    "Where no tokens are asked for, everybody may read it; with whom it is shared is kept, and holds once they are "
    "(`tfquiver token --help`)."
)
_AUTO = (
    "The policy decides about it from its next plan on, within seconds. What would evict what others read has to pay "
    "in four plans in a row, half a minute where jobs do not come and go, before it is done: `tfquiver explain` says "
    "what is waited for."
)
_SET_S = 60.0  # striping millions of shards takes a while

Ask = Callable[..., Any]
_ROTATIONS = {
    "relevance": "relevance: what the most jobs still need is loaded next",
    "cyclic": "cyclic: one chunk after the other, in the same order each time",
}
_DELETE = """Removes a data set from the cluster: its name, its room, and what nodes keep of it alone, also where it is
pinned; its files in the store stay. What somebody reads, or has mounted, goes with --force only: they would find
nothing."""


def add_parser(subparsers: Any) -> None:
    """Adds `dataset` and its subcommands; each sets `run`, a function of the parsed arguments."""
    parser = subparsers.add_parser("dataset")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="every data set with its cache setting, newest first")
    show = commands.add_parser("show", help="one data set, its cache setting and what is being loaded")
    set_cache = commands.add_parser("set-cache", help="say how a data set is cached from now on")
    named.add_parsers(commands)
    share = commands.add_parser("share", help="say who else may read a data set; nobody, when nobody is named")
    delete = commands.add_parser(
        "delete", help="remove a data set from the cluster; its files in the store stay", description=_DELETE
    )
    for command, run in (
        (listing, _list), (show, _show), (set_cache, _set_cache), (share, _share), (delete, _delete)
    ):  # fmt: skip
        if command is not listing:
            command.add_argument("name", metavar="NAME", help="its name, or the first digits of its digest id")
        calls.add_where(command, positional=command is listing)
        command.add_argument("--json", action="store_true", help="one JSON object instead of tables")
        command.set_defaults(run=run)
    set_cache.add_argument(
        "setting",
        metavar="SETTING",
        help=f"{cache_setting.SYNTAX} | auto. uniform: what comes first is kept, and nothing of it evicted for "
        "others; full is another word for it, and BYTES alone, for example 20GiB, for uniform:BYTES. cooperative: "
        "chunks rotate, and all jobs share them. lru: what was used last is kept. none: nothing. auto: the policy "
        "decides. BYTES are of all nodes together; without them it is all that others leave",
    )
    placing.add_commands(commands, _found, _others)
    share.add_argument("--with", dest="names", default="", metavar="A,B", help="names of tokens")
    share.add_argument("--everybody", action="store_true", help="with whoever has a token")
    delete.add_argument(
        "--force", action="store_true", help="although jobs read it, or may be between two epochs of it: they end"
    )
    for flag, what in (
        ("--chunks", "cut it into so many chunks; default: by its size and room"),
        ("--partitions", "take each chunk from so many parts of it, so that it is a fair sample; default: by its size"),
    ):
        set_cache.add_argument(flag, type=_count, default=0, metavar="N", help=f"cooperative: {what}")
    what = f"cooperative: which chunk comes next. {'; '.join(_ROTATIONS.values())}; default: relevance"
    set_cache.add_argument("--rotation", choices=("relevance", "cyclic"), default="", help=what)


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _list(arguments: argparse.Namespace) -> int:
    address, token = coordinator_address(calls.where(arguments)), calls.token(arguments)
    whom = f"coordinator {address}"
    with calls.channel(address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        request = coordinator_pb2.ListDatasetsRequest(with_settings=True)
        told = calls.settings(stub, calls.ask(stub.ListDatasets, request, token, whom), token, whom)
        told = Unfollowed().known(channel, told, token, whom)
    with named.service(arguments) as (ask_named, stub, _):
        told = names.joined(names.all_named(ask_named, stub), told)
    if arguments.json:
        print(json.dumps({"datasets": told}))
        return 0
    if not told:
        seen = " that you may read" if token else ""
        print(
            f"no data set yet{seen}: tfquiver dataset create makes one with a name, the first use of files one without"
        )
        return 0
    calls.console().print(names.table(told) if any("state" in one for one in told) else calls.datasets_table(told))
    for why in names.reasons(told):
        print(f"\n{plain_text.plain(why)}")
    if any(one.get("phrase") == states.OLD for one in told):
        calls.console().print(f"\n{states.OLD_LEGEND}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    its: dict[str, Any] = {}
    with named.service(arguments) as (ask, stub, _):
        if one := names.find(ask, stub, arguments.name, resident=False):
            its = states.plain(one)
            if not one.HasField("dataset"):
                return _show_named(arguments, one)
    with _service(arguments) as (ask, stub):
        dataset = _named(arguments, _all(ask, stub), one.dataset.digest_id.hex() if one else arguments.name)
        dataset = _looked_at(ask, stub, dataset)
        if one and dataset.HasField("resident_bytes"):
            its["resident_bytes"] = dataset.resident_bytes
        told = _with_cache(ask, stub, dataset) | its | ({"name": one.spec.name} if one else {})
        with contextlib.suppress(errors.PermissionError_):  # orders are told to nodes and admins
            for orders in ask(stub.Orders, coordinator_pb2.OrdersRequest()).orders:
                if orders.digest_id == dataset.digest_id and orders.setting.chunks:
                    told |= {"loading": list(orders.load), "leaving": list(orders.evict)}
        request = coordinator_pb2.GetPlacementRequest(digest_id=dataset.digest_id)
        if (placed := _if_known(ask, stub.GetPlacement, request)) and placed.HasField("rule"):
            told["placement"] = placing.plain(placed)
    _print(told, arguments.json, states.lines(its, states.phrase(one), one.spec.name) if one else {})
    return 0


def _show_named(arguments: argparse.Namespace, one: named_datasets_pb2.NamedDataset) -> int:
    """One of which there is no version yet."""
    told = {"name": one.spec.name} | states.plain(one)
    if arguments.json:
        print(json.dumps(told))
        return 0
    for name, value in ({"data set": one.spec.name} | states.lines(told, states.phrase(one), one.spec.name)).items():
        print(f"{name + ':':<12}{plain_text.plain(value)}")
    return 0


def _set_cache(arguments: argparse.Namespace) -> int:
    setting, cut = types_pb2.CacheSetting(), (arguments.rotation, arguments.chunks, arguments.partitions)
    if arguments.setting in _UNSET:
        cache_setting.check_uncut(arguments.setting, *cut)
    else:
        setting = cache_setting.parse(arguments.setting, *cut)
    with _service(arguments) as (ask, stub):
        sought = _digest_id_or_name(arguments)
        dataset = _named_or_gone(arguments, _all(ask, stub), sought)
        request = coordinator_pb2.SetCacheRequest(digest_id=dataset.digest_id, setting=setting)
        fixed = ask(stub.SetCache, request, _SET_S)
    given = {"name": arguments.name} if sought != arguments.name else {}
    _print(calls.plain(dataset) | given | {"cache": cache_setting.plain(fixed)}, arguments.json)
    if arguments.setting in _UNSET and not arguments.json:
        print(_AUTO)
    return 0


def _share(arguments: argparse.Namespace) -> int:
    names = [name for name in arguments.names.split(",") if name]
    with _service(arguments) as (ask, stub):
        sought = _digest_id_or_name(arguments)
        dataset = _named(arguments, _all(ask, stub), sought)
        request = coordinator_pb2.ShareDatasetRequest(
            digest_id=dataset.digest_id, names=names, everybody=arguments.everybody
        )
        told = _with_cache(ask, stub, ask(stub.ShareDataset, request))
    given = {"name": arguments.name} if sought != arguments.name else {}
    _print(told | given, arguments.json)
    if not told.get("owners") and not arguments.json:
        others = "everybody" if told.get("everybody") else ", ".join(told.get("shared_with", ()))
        print(f"It has no owner, and is shared with {plain_text.plain(others) or 'nobody'}.")
        if not calls.token(arguments):
            print(_NO_TOKENS)
    return 0


def _delete(arguments: argparse.Namespace) -> int:
    with named.service(arguments) as (ask, stub, _):
        if one := names.find(ask, stub, arguments.name):
            return _delete_named(arguments, ask, stub, names.of_same_content(arguments, ask, stub, one))
    with _service(arguments) as (ask, stub):
        dataset = _named_or_gone(arguments, _all(ask, stub), arguments.name)
        request = coordinator_pb2.DeleteDatasetRequest(digest_id=dataset.digest_id, force=arguments.force)
        with explained_names.in_refusals(arguments):
            owners = list(ask(stub.DeleteDataset, request).owners)
    if arguments.json:
        print(json.dumps({"digest_id": dataset.digest_id.hex(), "removed": not owners, "owners": owners}))
    elif owners:
        print(f"{arguments.name} is yours no more; it still belongs to {', '.join(owners)}")
    else:
        print(f"{arguments.name} is removed; nodes delete what they keep of it alone")
    return 0


def _delete_named(arguments: argparse.Namespace, ask: Ask, stub: Any, others: list[str]) -> int:
    """`others`: what its content is called, too: one data set, listed under each."""
    request = named_datasets_pb2.NamedDatasetRequest(name=arguments.name, force=arguments.force)
    with_it = plain_text.plain(", ".join(others))
    try:
        with explained_names.in_refusals(arguments):
            ask(stub.Delete, request)
    except errors.TfquiverError as error:
        if not others or error.code is not errors.InUseError.code:
            raise
        raise errors.InUseError(f"{error}; with it goes {with_it}, of the same content and without a name") from None
    left = names.until_gone(ask, stub, arguments.name)
    gone = [] if left or not others else sorted(set(others) - {one.name for one in names.registered(arguments)})
    if arguments.json:
        print(json.dumps({"name": arguments.name, "removed": left is None} | ({"with_it": gone} if gone else {})))
    elif left is None:
        print(f"{arguments.name} is removed")
        if gone:
            print(f"with it went {plain_text.plain(', '.join(gone))}, of the same content and without a name")
    else:
        why = plain_text.plain(left.reason) or "nodes delete what they keep of it"
        print(f"{arguments.name} is being removed: {why}")
    return 0


@contextmanager
def _service(arguments: argparse.Namespace) -> Iterator[tuple[Ask, Any]]:
    address = coordinator_address(calls.where(arguments))
    token = calls.token(arguments)

    def ask(method: Callable[..., Any], request: Any, *timeout_s: float) -> Any:
        return calls.ask(method, request, token, f"coordinator {address}", *timeout_s)

    with calls.channel(address) as channel:
        yield ask, coordinator_pb2_grpc.CoordinatorStub(channel)


@contextmanager
def _found(arguments: argparse.Namespace) -> Iterator[tuple[Ask, Any, types_pb2.Dataset]]:
    """Called as it was asked for."""
    with _service(arguments) as (ask, stub):
        sought = _digest_id_or_name(arguments)
        dataset = _named(arguments, _all(ask, stub), sought)
        if sought != arguments.name:
            dataset.name = arguments.name
        yield ask, stub, dataset


def _others(arguments: argparse.Namespace, digest_id: bytes) -> list[str]:
    """Names of the same content."""
    with named.service(arguments) as (ask, stub, _):
        every = names.all_named(ask, stub)
    its = [one.spec.name for one in every if one.HasField("dataset") and one.dataset.digest_id == digest_id]
    return sorted(set(its) - {arguments.name})


def _digest_id_or_name(arguments: argparse.Namespace) -> str:
    """Of a data set that has a name the digest id of its newest version: its content may be known by another, too."""
    with named.service(arguments) as (ask, stub, _):
        one = names.find(ask, stub, arguments.name, resident=False)
    return one.dataset.digest_id.hex() if one and one.HasField("dataset") else str(arguments.name)


def _if_known(ask: Ask, method: Callable[..., Any], request: Any) -> Any:
    """None: of a coordinator that does not know the call."""
    try:
        return ask(method, request)
    except errors.TfquiverError as error:
        if calls.is_unknown(error):
            return None
        raise


def _all(ask: Ask, stub: Any) -> list[types_pb2.Dataset]:
    return list(ask(stub.ListDatasets, coordinator_pb2.ListDatasetsRequest()).datasets)


def _looked_at(ask: Ask, stub: Any, dataset: types_pb2.Dataset) -> types_pb2.Dataset:
    """With what is there of it now, as far as nodes have told."""
    request = coordinator_pb2.ListDatasetsRequest(looked_at=[dataset.digest_id])
    found = (one for one in ask(stub.ListDatasets, request).datasets if one.digest_id == dataset.digest_id)
    return next(found, dataset)


def _named(arguments: argparse.Namespace, datasets: list[types_pb2.Dataset], name: str) -> types_pb2.Dataset:
    """Raises NotFoundError, or InvalidArgumentError when several have that name."""
    found = [dataset for dataset in datasets if dataset.name == name]
    if not found and len(name) >= _LEAST_DIGITS:
        found = [dataset for dataset in datasets if dataset.digest_id.hex().startswith(name.lower())]
    if len(found) > 1:
        ids = ", ".join(dataset.digest_id.hex()[:12] for dataset in found)
        raise errors.InvalidArgumentError(
            f"{name!r} names {many(len(found), 'data set')}: give one of the digest ids {ids}"
        )
    if not found:
        with named.service(arguments) as (ask, stub, _):
            every, has_token = names.all_named(ask, stub), bool(calls.token(arguments))
            raise names.none_called(name, [dataset.name for dataset in datasets], every, has_token)
    return found[0]


def _named_or_gone(arguments: argparse.Namespace, datasets: list[types_pb2.Dataset], name: str) -> types_pb2.Dataset:
    """As `_named`; a whole digest id needs not be registered any more."""
    try:
        return _named(arguments, datasets, name)
    except errors.NotFoundError:
        if not re.fullmatch(r"[0-9a-fA-F]{64}", name):
            raise
        return types_pb2.Dataset(digest_id=bytes.fromhex(name))


def _with_cache(ask: Ask, stub: Any, dataset: types_pb2.Dataset) -> dict[str, Any]:
    cache = ask(stub.GetCache, coordinator_pb2.GetCacheRequest(digest_id=dataset.digest_id))
    return calls.plain(dataset) | {"cache": cache_setting.plain(cache)}


def _print(told: dict[str, Any], as_json: bool, more: Mapping[str, str] | None = None) -> None:
    if as_json:
        print(json.dumps(told))
        return
    cache = told["cache"]
    records = f", {many(told['records'], 'record')}" if told["records"] else ""  # files of any kind have none
    lines = {
        "data set": told["name"],
        "digest id": told["digest_id"],
        "size": f"{of_bytes(told['size_bytes'])} in {many(told['shards'], 'shard')}{records}",
        "cache": _meaning(cache),
    }
    if more is not None and "cached" not in more and "resident_bytes" in told:
        lines["cached"] = words.size(told["resident_bytes"])
    if "allocation_bytes" in cache:
        share = cache["allocation_bytes"] / max(told["size_bytes"], 1)
        part = "more than its size" if share > 1 else f"about {share:.0%} of its size"
        lines["allocation"] = f"{of_bytes(cache['allocation_bytes'])} on all nodes, {part}"
    if "chunks" in cache:
        each = of_bytes(told["size_bytes"] // cache["chunks"])
        sample = f", each a sample of {cache['partitions']} parts of the data set" if cache["partitions"] > 1 else ""
        lines["chunks"] = f"{cache['chunks']} of about {each}{sample}"
        lines["rotation"] = _ROTATIONS.get(cache["rotation"], cache["rotation"])
    if "loading" in told:
        loading, leaving = len(told["loading"]), len(told["leaving"])
        lines["now"] = f"{many(loading, 'chunk')} being read into the cache, {leaving} being deleted"
    if "rule" in (placed := told.get("placement", {})):  # `show` asks what it comes to; else it is the rule alone
        lines["kept on"] = placing.text(placed)
        if moving := placing.progress(placed):
            lines["moving"] = moving
    if told.get("owners"):
        others = ["everybody"] if told["everybody"] else told["shared_with"]
        lines["owners"] = ", ".join(told["owners"]) + (f"; shared with {', '.join(others)}" if others else "")
    for name, value in (lines | dict(more or {})).items():
        print(f"{name + ':':<12}{plain_text.plain(value)}")


def _meaning(cache: dict[str, Any]) -> str:
    meaning = {
        "unset": "auto: as the policy decides while it is read; until then kept as far as there is room",
        "none": "none: nothing is kept",
        "cooperative": "cooperative: chunks rotate, all jobs share them",
        "uniform": "uniform: what comes first is kept until the "
        + ("allocation is used" if "allocation_bytes" in cache else "quotas are used"),
        "lru": "lru: the least recently used goes first",
    }[cache["mode"]]
    return f"{meaning}; by policy {cache['decided_by']}" if "decided_by" in cache else meaning
