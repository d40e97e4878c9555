"""The commands on data sets that have names. Each sets `run`, a function of the parsed arguments."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tfquiver import errors, named_files, plain_text
from tfquiver.cli import calls
from tfquiver.cli.dataset_commands import names, states, waiting, warm
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.cli.status_tables_and_warnings import nodes_view
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.listing.listing_terms import format_number
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2_grpc, types_pb2
from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.stores.local import path_of, whole_path

NOT_ALL = 3
_CHANGE_S = 60.0  # a pin of millions of shards takes a while, and so do nodes that come back after a restart
_UPLOAD_S = 600.0
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CREATE = """Makes a data set that has a name: nodes read its source once and cache it on the way; jobs name it in place
of files (tfquiver.dataset("NAME")). The source is as nodes see it, and read with their credentials, or with those that
--credentials refers to. The same command again changes nothing. Without --wait it is only seen, for three seconds at
most, whether the source can be listed. Exit code with --wait: 3 when it is not kept where was
asked for, or, with --pin, not all of it has found room in the nodes' quotas and on their disks."""
_PREFETCH = """Reads into the cache what is not there. With --check nothing is read: it is only looked. Exit code with
--wait or --check: 0 when all of it is resident, 3 when it is not, 1 after an error."""
_ABOUT = {
    "pin": """Keeps all of a data set, whatever else needs room: nothing makes room for others, and until unpin evict
and set-cache of it are refused. delete is not: who names it means it. Only what found no room
before is read for it, when there is some; else jobs read it, or prefetch. Exit code with --wait: 3 when it has no room
yet.""",
    "evict": """Nodes delete what they keep of a data set alone. It stays readable, from its source, by jobs and through
mounts; what a job reads goes with --force only, what is pinned not before unpin.""",
    "refresh": """Lists the source again, and reads what has changed. Where that fails the version that there is stays,
and the reason is said. Exit code with --wait: 3 where there is such a reason.""",
}

Ask = Callable[..., Any]
UntilDone = Callable[[str], tuple[pb2.NamedDataset, str]]
Change = Callable[[Any, argparse.Namespace], tuple[Any, Any]]  # a method of the stub, and its request


def add_parsers(commands: Any) -> None:
    """Adds them to `tfquiver dataset`."""
    create = commands.add_parser("create", help="make a data set that has a name", description=_CREATE)
    create.add_argument("name", metavar="NAME", help="a letter or digit, then letters, digits and . _ -")
    create.add_argument("--digest", type=named_files.typed_path, metavar="FILE", help="a digest (tfquiver digest "
                        "build) says what it is: nothing is scanned")  # fmt: skip
    for flag, metavar, what in (
        (
            "--credentials",
            "REF",
            "file:PATH, env:NAME, k8s:SECRET/KEY, found by the node that reads; default: its own",
        ),
        ("--nodes", "SELECTOR", "keep it on nodes with these labels: rack=r1,disk=nvme"),
    ):
        create.add_argument(flag, default="", metavar=metavar, help=what)
    create.add_argument(
        "--source",
        nargs="+",
        default=[],
        metavar="URI",
        help="paths, globs, URIs, as nodes see them; with a slash at the end, or a directory: all files beneath. "
        "Behind NAME: all that follows is sources, also what the shell makes of a pattern without quotes",
    )
    calls.add_format(create)
    create.set_defaults(format=None)  # a digest has its own
    create.add_argument("--pin", action="store_true", help="keep all of it, whatever else needs room")
    create.add_argument("--stripe", type=_count, default=0, metavar="K", help="keep it on at most so many nodes")
    create.add_argument("--rack-local", action="store_true", help="keep a copy in each rack")
    create.add_argument("--replicas", type=_count, default=0, metavar="R", help="keep each shard on so many nodes")
    _add(create, _create, wait="until it is scanned")
    prefetch = commands.add_parser("prefetch", help="read a data set into the cache", description=_PREFETCH)
    prefetch.add_argument("--check", action="store_true", help="only look whether all of it is resident")
    for name, command, what, change, wait in (
        ("prefetch", prefetch, "", _prefetch, "until nodes have read what they can"),
        (
            "pin",
            None,
            "keep all of a data set, whatever else needs room",
            _changed(_pin),
            "until it has its room, or it is known why not",
        ),
        ("unpin", None, "give the room of a pinned data set back", _changed(_unpin), ""),
        ("evict", None, "delete what is cached of a data set; it stays readable", _changed(_evict), "until it is gone"),
        (
            "refresh",
            None,
            "look what has changed in its source",
            _changed(_refresh),
            "until it is scanned",
        ),
    ):
        command = command or commands.add_parser(name, help=what, description=_ABOUT.get(name))
        command.add_argument("name", metavar="NAME", help="its name, or the first digits of its digest id")
        if name == "evict":
            command.add_argument("--force", action="store_true", help="although somebody reads it")
        _add(command, change, wait)


def _add(command: Any, run: Callable[[argparse.Namespace], int], wait: str) -> None:
    if wait:
        command.add_argument("--wait", action="store_true", help=f"wait {wait}, with a progress bar")
    calls.add_where(command)
    command.add_argument("--json", action="store_true", help="one JSON object instead of text")
    command.set_defaults(run=run)


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _create(arguments: argparse.Namespace) -> int:
    spec = pb2.DatasetSpec(
        name=arguments.name,
        sources=[whole_source(source) for source in arguments.source],
        credentials=arguments.credentials,
        pin=arguments.pin,
    )
    rule = types_pb2.PlacementRule(
        selector=arguments.nodes, stripe=arguments.stripe, rack_local=arguments.rack_local, replicas=arguments.replicas
    )
    if arguments.format and not arguments.digest:
        spec.format = format_number(arguments.format)
    if rule != types_pb2.PlacementRule():
        spec.placement.CopyFrom(rule)
    _check_sources(arguments.source)
    if arguments.digest and arguments.source:
        raise errors.InvalidArgumentError("--digest says what the data set is: leave out --source")
    if arguments.digest:
        _check_digest(arguments)
    with ExitStack() as stack:
        where, token = calls.where(arguments), calls.token(arguments)
        address = warm.cluster(where, token, [], stack).coordinator
        if arguments.digest:
            with Registrar(address, None, token, _UPLOAD_S) as registrar:
                spec.digest_id = registrar.digest(arguments.digest).digest_id
        stub = named_datasets_pb2_grpc.NamedDatasetsStub(stack.enter_context(calls.channel(address)))
        whom = f"coordinator {address}"
        named, said = calls.ask(stub.Create, spec, token, whom, _CHANGE_S), ""
        if named.spec.format != spec.format:
            raise errors.InvalidArgumentError(
                f"--format: {whom} is of an older version, and takes {arguments.name} for TFRecord files: delete it "
                "(tfquiver dataset delete), and make it when the coordinator is as new as this command"
            )
        if not arguments.wait:
            named = waiting.until_begun(stub, named, token, whom)
        if arguments.wait:
            named, said = waiting.until_done(stub, arguments.name, token, whom)
            named = waiting.until_kept(stub, named, token, whom)
        full = _full_disks(arguments) if arguments.pin else []
        if full and arguments.wait:
            named = calls.ask(stub.Get, pb2.GetNamedDatasetRequest(name=arguments.name, resident=True), token, whom)
    code = _say(named, arguments.json, said)
    if full and not _is_resident(named):
        _warn(arguments.name, full)
        return code or (NOT_ALL if arguments.wait else 0)
    waits = states.waits_for_pin(named) or states.waits_for_places(named)
    return code or (NOT_ALL if arguments.wait and waits else 0)


def _check_sources(sources: Sequence[str]) -> None:
    """Raises InvalidArgumentError: the last one is a name that was meant for something else."""
    *others, last = sources or [""]
    if others and _WORD.fullmatch(last) and not os.path.lexists(last) and all(map(os.path.lexists, others)):
        raise errors.InvalidArgumentError(
            f"--source: there is no {last} here. The shell has put {many(len(others), 'file')} in the place of a "
            "pattern, perhaps: quote it, and name the data set first: tfquiver dataset create NAME --source 'PATTERN'"
        )


def _check_digest(arguments: argparse.Namespace) -> None:
    """Before a node is started for it. Raises TfquiverError naming the flag and the file."""
    try:
        digest = Digest.open(arguments.digest)
    except errors.TfquiverError as error:
        raise type(error)(f"--digest={error}") from error
    if arguments.format not in (None, digest.format):
        raise errors.InvalidArgumentError(
            f"--format {arguments.format}: {arguments.digest} has format {digest.format}: leave out --format"
        )


def _prefetch(arguments: argparse.Namespace) -> int:
    said = ""
    with service(arguments) as (ask, stub, until_done):
        arguments.name = names.called(ask, stub, arguments.name)
        if not arguments.check:
            with names.without_name(arguments):
                named = ask(stub.Prefetch, pb2.NamedDatasetRequest(name=arguments.name), _CHANGE_S)
        if arguments.wait:
            named, said = until_done(arguments.name)
        if not (arguments.check or arguments.wait):
            return _say(named, arguments.json)
        with names.without_name(arguments):
            named = ask(stub.Get, pb2.GetNamedDatasetRequest(name=arguments.name, resident=True), _CHANGE_S)
    code = _say(named, arguments.json, said)
    return code or (0 if _is_resident(named) else NOT_ALL)


def _changed(change: Change) -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        with service(arguments) as (ask, stub, until_done):
            arguments.name = names.called(ask, stub, arguments.name)
            there = names.find(ask, stub, arguments.name, resident=False) if change is _unpin else None
            with names.without_name(arguments):
                named, said = ask(*change(stub, arguments), _CHANGE_S), ""
            waits = getattr(arguments, "wait", False)
            if waits:
                named, said = until_done(arguments.name)
            if waits and change is _pin:
                address = coordinator_address(calls.where(arguments))
                named = waiting.until_kept(stub, named, calls.token(arguments), f"coordinator {address}")
            full = _full_disks(arguments) if change is _pin else []
            if full:
                named = ask(stub.Get, pb2.GetNamedDatasetRequest(name=arguments.name, resident=True), _CHANGE_S)
        becomes = _NEVER_PINNED if there and not there.spec.pin else _PINNED.get(change, "")
        code = _say(named, arguments.json, said, "" if states.is_unpinned(named) else becomes)
        if full and not _is_resident(named):
            _warn(arguments.name, full)
        # What was there before is read on where the source could not be scanned: Ready, as if it were the newest.
        lacks = change is _refresh and arguments.wait and named.reason
        return code or (NOT_ALL if lacks or (waits and states.waits_for_pin(named)) else 0)

    return run


def _pin(stub: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    return stub.Pin, pb2.PinDatasetRequest(name=arguments.name, pinned=True)


def _full_disks(arguments: argparse.Namespace) -> list[str]:
    """Why a pin may be refused, or what it has be kept in part: a disk may have filled since, or a node not tell."""
    with suppress(errors.TfquiverError):
        told = status.collect(calls.where(arguments), calls.token(arguments), sessions=1)
        return list(nodes_view.full_disks(told["nodes"]))
    return []


def _warn(name: str, full: Sequence[str]) -> None:
    for line in full:
        calls.say(f"{name} may not be kept whole: {line}")


def _unpin(stub: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    return stub.Pin, pb2.PinDatasetRequest(name=arguments.name, pinned=False)


def _evict(stub: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    return stub.Evict, pb2.NamedDatasetRequest(name=arguments.name, force=arguments.force)


def _refresh(stub: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    return stub.Refresh, pb2.NamedDatasetRequest(name=arguments.name)


_PINNED: dict[Change, str] = {_pin: ", pinned", _unpin: ", not pinned any more"}
_NEVER_PINNED = ", was not pinned"


@contextmanager
def service(
    arguments: argparse.Namespace,
) -> Iterator[tuple[Ask, Any, UntilDone]]:
    """How to ask, the stub, and how to wait until something is done."""
    address, token = coordinator_address(calls.where(arguments)), calls.token(arguments)
    whom = f"coordinator {address}"
    with calls.channel(address) as channel:
        stub = named_datasets_pb2_grpc.NamedDatasetsStub(channel)
        yield (
            lambda method, request, *timeout_s: calls.ask(method, request, token, whom, *timeout_s),
            stub,
            lambda name: waiting.until_done(stub, name, token, whom),
        )


def whole_source(source: str) -> str:
    """Nodes have no current directory of ours. A slash at the end stays: it says that all files beneath are meant."""
    prefix = "file://" if source.startswith("file:///") else ""
    if "://" in source and not prefix:
        return source
    path = path_of(source)
    whole = whole_path(path if prefix else str(Path(path).expanduser()))
    return f"{prefix}{whole.rstrip('/')}/" if source.endswith("/") else f"{prefix}{whole}"


def _is_resident(named: pb2.NamedDataset) -> bool:
    known = named.HasField("resident_bytes") and named.HasField("dataset")
    return known and named.resident_bytes >= named.dataset.size_bytes


def _say(named: pb2.NamedDataset, as_json: bool, said: str = "", change: str = "") -> int:
    """0; 1 where it has failed. `said`: the reason that stands on standard error already. `change`: of its state."""
    failed = named.state == pb2.NamedDataset.STATE_FAILED
    if as_json:
        print(json.dumps({"name": named.spec.name, **states.plain(named)}))
        return int(failed)
    waits = states.pin_text({"pin_waits": states.waits_for_pin(named)})
    text = f"{named.spec.name}: {states.phrase(named)}{waits}{change}"
    if named.HasField("dataset") and not named.dataset.size_bytes:
        text += f"; {formats.NOTHING}"
    elif named.HasField("resident_bytes"):
        in_part = named.state == pb2.NamedDataset.STATE_READY and not _is_resident(named)
        text += f"{', in part' * in_part}; {warm.resident_text(named.resident_bytes, named.dataset.size_bytes)}"
        if said and _is_resident(named):
            named.reason, text = "", f"{text} by now"
        if in_part and not named.reason:
            text += f": not read yet, or given up since; `tfquiver dataset prefetch {named.spec.name}` reads what fits"
    text = f"{text}: {named.reason}" if named.reason and (failed or named.reason != said) else text
    to_do = states.to_do(states.word(named), named.spec.name)
    print(plain_text.plain(f"{text}; {to_do}" if to_do else text))
    return int(failed)
