"""Data sets that have names, found, listed among the others, and waited for until they are gone."""

from __future__ import annotations

import argparse
import difflib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import grpc
from rich.table import Table

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.dataset_commands import cache_setting, states
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, types_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.sizes_durations_amounts.amounts import many

DIGITS = re.compile(r"[0-9a-fA-F]{6,64}")  # of a digest id: no fewer, that are more likely a name
_GONE_S = 30.0
_WAIT_MS = 1000
_SAID = 10

Ask = Callable[..., Any]


def find(ask: Ask, stub: Any, name: str, resident: bool = True) -> pb2.NamedDataset | None:
    """None: none is called so, or the coordinator is older than names. `resident`: with what is there."""
    try:
        found: pb2.NamedDataset = ask(stub.Get, pb2.GetNamedDatasetRequest(name=name, resident=resident))
    except errors.NotFoundError:
        return None
    except errors.TfquiverError as error:
        if _is_unknown(error):
            return None
        raise
    return found


def all_named(ask: Ask, stub: Any) -> list[pb2.NamedDataset]:
    try:
        return list(ask(stub.List, pb2.ListNamedDatasetsRequest()).datasets)
    except errors.TfquiverError as error:
        if _is_unknown(error):
            return []
        raise


def called(ask: Ask, stub: Any, name: str) -> str:
    """The name of the data set that `name` gives the first digits of the digest id of; else `name` itself. Raises
    InvalidArgumentError: several have such a digest id, or that one."""
    if not DIGITS.fullmatch(name) or find(ask, stub, name, resident=False):
        return name
    every = (one for one in all_named(ask, stub) if one.HasField("dataset"))
    meant = sorted({one.spec.name for one in every if one.dataset.digest_id.hex().startswith(name.lower())})
    if meant[1:]:
        raise errors.InvalidArgumentError(f"{name} are digits of {many(len(meant), 'data set')}: {', '.join(meant)}")
    return meant[0] if meant else name


def none_called(
    name: str, registered: Sequence[str], every: Sequence[pb2.NamedDataset], has_token: bool
) -> errors.NotFoundError:
    """Why no data set is registered that is called so, and which there are: also those that have a name and, as their
    scan has failed or goes on, nothing else. `every`: that has a name. `has_token`: there may be some that whoever
    asks may not read."""
    for one in every:
        if one.spec.name == name:
            why = f": {one.reason}" if one.reason else ""
            return errors.NotFoundError(f"data set {name} has no version yet: it is {states.phrase(one)}{why}")
    known = dict.fromkeys(registered, "") | {
        one.spec.name: "" if one.HasField("dataset") else f" ({states.phrase(one)})" for one in every
    }
    there = ", ".join(f"{one}{known[one]}" for one in sorted(known)[:_SAID])
    more = f" and {len(known) - _SAID} more" if len(known) > _SAID else ""
    near = difflib.get_close_matches(name, known, n=1)
    meant = f": did you mean {near[0]}? There" if near else "; there"
    none = ", nor any other" + " that you may read (its owner shares one: tfquiver dataset share)" * has_token
    readable = " that you may read" * (has_token and bool(there))
    which = f"{readable}{f'{meant} are {there}{more}' if there else none}"
    return errors.NotFoundError(f"no data set {name!r} is registered{which}")


@contextmanager
def without_name(arguments: argparse.Namespace) -> Iterator[None]:
    """What is asked inside is only for data sets that have names. Raises NotFoundError: of one that `list` and `show`
    know, made by its first use, what gives it a name; else the server's."""
    try:
        yield
    except errors.NotFoundError:
        there: list[types_pb2.Dataset] = []
        with suppress(errors.TfquiverError):
            there = registered(arguments)
        digits = arguments.name.lower() if DIGITS.fullmatch(arguments.name) else None
        if not any(arguments.name == one.name or (digits and one.digest_id.hex().startswith(digits)) for one in there):
            raise
        raise errors.NotFoundError(
            f"{arguments.name} has no name of its own (made by first use): "
            "`tfquiver dataset create NAME --source ...` gives it one"
        ) from None


def registered(arguments: argparse.Namespace) -> list[types_pb2.Dataset]:
    address = coordinator_address(calls.where(arguments))
    with calls.channel(address) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        request = coordinator_pb2.ListDatasetsRequest()
        return list(calls.ask(stub.ListDatasets, request, calls.token(arguments), f"coordinator {address}").datasets)


def of_same_content(arguments: argparse.Namespace, ask: Ask, stub: Any, named: pb2.NamedDataset) -> list[str]:
    """What else the registry calls that content, as it was first used: it is one data set, and goes with its name,
    unless the content has a second one."""
    if not named.HasField("dataset"):
        return []
    its, name = named.dataset.digest_id, named.spec.name
    first_used = {one.name for one in registered(arguments) if one.digest_id == its} - {"", name}
    if not first_used or any(one.spec.name != name and one.dataset.digest_id == its for one in all_named(ask, stub)):
        return []
    return sorted(first_used)


def joined(named: Sequence[pb2.NamedDataset], told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that have names first, each with what is told of its newest version; then the others, the versions before
    the newest ones among them, and what has such a version's content and was first used under another name."""
    others = {one["digest_id"]: one for one in told}
    first = []
    for one in named:
        its = others.get(one.dataset.digest_id.hex(), {}) if one.HasField("dataset") else {}
        first.append({**its, "name": one.spec.name, **states.plain(one), "phrase": states.phrase(one)})
    called = {(one["digest_id"], one["name"]) for one in first if "digest_id" in one}
    left = [one for one in told if (one["digest_id"], one["name"]) not in called]
    old = Counter({one["name"]: one["old_versions"] for one in first})
    return [*first, *(one | {"phrase": states.OLD} if _is_old(one, old) else one for one in left)]


def marked_old(ask: Ask, stub: Any, told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """`told`, with `old` those that are a version before the newest one. Only where a name is there twice is asked."""
    if all(count == 1 for count in Counter(one["name"] for one in told).values()):
        return list(told)
    named = all_named(ask, stub)
    newest = {(one.dataset.digest_id.hex(), one.spec.name) for one in named if one.HasField("dataset")}
    left = Counter({one.spec.name: one.old_versions for one in named})
    may_be = [(one["digest_id"], one["name"]) not in newest for one in told]
    return [one | {"old": True} if its and _is_old(one, left) else one for one, its in zip(told, may_be, strict=True)]


def _is_old(one: dict[str, Any], left: Counter[str]) -> bool:
    """A version before the newest is called as that is; `left`: of each name, how many are to come."""
    left[one["name"]] -= 1
    return left[one["name"]] >= 0


def table(told: Sequence[dict[str, Any]]) -> Table:
    """Of what `joined` gave."""
    made = calls.table("data set", "state", "digest", "size", "cached", "how")
    made.columns[0].no_wrap = False  # the others are never narrower than what is in them
    made.columns[0].overflow = "ellipsis"
    for one in told:
        state = f"{one['phrase']}{states.pin_text(one)}" if "phrase" in one else "-"
        if "digest_id" in one:
            cache = cache_setting.text(one["cache"], one["size_bytes"])
            row = (one["digest_id"][:8], words.size(one["size_bytes"]), words.resident(one), cache)
        else:
            row = ("-", "-", "-", "-")
        made.add_row(calls.cut(one["name"], 28), state, *row)
    return made


def reasons(told: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Of what `joined` gave: a line for each that has failed, is stale, or is Ready and not all here, and says why."""
    why = [f"{one['name']}: {states.reason(one)}{_help(one)}" for one in told if one.get("reason") and _lacks(one)]
    yield from why[:_SAID]
    if why[_SAID:]:
        yield f"{many(len(why) - _SAID, 'more says', 'more say')} why: tfquiver dataset show NAME"


def _help(one: dict[str, Any]) -> str:
    to_do = states.to_do(one["state"], one["name"])
    return f"; {to_do}" if to_do else ""


def _lacks(one: dict[str, Any]) -> bool:
    if one["state"] != "ready":
        return one["state"] in ("failed", "stale")
    here, size_bytes = one.get("resident_bytes"), one.get("size_bytes")
    return here is not None and size_bytes is not None and bool(here < size_bytes)


def until_gone(ask: Ask, stub: Any, name: str) -> pb2.NamedDataset | None:
    """None: it is; else how it is after half a minute: nodes may take longer."""
    give_up_at, seen = time.monotonic() + _GONE_S, 0
    while True:
        try:
            left: pb2.NamedDataset = ask(stub.Get, pb2.GetNamedDatasetRequest(name=name, seen=seen, wait_ms=_WAIT_MS))
        except errors.NotFoundError:
            return None
        if time.monotonic() > give_up_at or left.state != pb2.NamedDataset.STATE_DELETING:
            return left
        seen = left.seen


def _is_unknown(error: errors.TfquiverError) -> bool:
    cause = error.__cause__
    return isinstance(cause, grpc.RpcError) and cause.code() is grpc.StatusCode.UNIMPLEMENTED
