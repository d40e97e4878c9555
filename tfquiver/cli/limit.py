"""`tfquiver limit`: what a job may read from the object store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.grpc_plumbing import pages
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.sizes_durations_amounts import sizes
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

_NONE = "none"
_MOST_NAMES = 10
_LEAST_WITHOUT_UNIT = 1 << 16
_ABOUT = """Says how many bytes a second a job may read from the object store, on all nodes together, until it is said
otherwise; what it finds in the cache does not count. Jobs with such a rate lend each other what they do not use, and
get their own back when they have to wait. A job that is yet to come has it then. `tfquiver status` shows them."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("limit", description=_ABOUT)
    parser.add_argument("job", metavar="JOB", help="its name, as `tfquiver status` shows it; without what "
                        "its token puts before it where no other one has that name")  # fmt: skip
    parser.add_argument("rate", metavar="RATE", help=f"a second, for example 50MB or 1GiB; {_NONE}: it has no rate")
    calls.add_where(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    bytes_per_s = _bytes_per_s(arguments.rate)
    with calls.coordinator(arguments) as (stub, token, whom):
        known = _known(stub, token, whom)
        name = named(arguments.job, known)
        rates = calls.ask(stub.ListRemoteIO, coordinator_pb2.ListRemoteIORequest(), token, whom).jobs
        if name not in known:  # it may have ended, and its rate be there still
            name = named(arguments.job, {one.job: one.job for one in rates})
        request = coordinator_pb2.AllocateRemoteIORequest(job=name, bytes_per_s=bytes_per_s)
        calls.ask(stub.AllocateRemoteIO, request, token, whom)
    rate = f"at most {of_bytes(bytes_per_s)}/s" if bytes_per_s else "as much as it can"
    was = "" if bytes_per_s else _was(one for one in rates if one.job == name and one.pinned)
    called = arguments.job if known.get(name) == arguments.job else name
    print(f"job {plain_text.plain(called)} reads {rate} from the object store{was}")
    if name not in known:
        print(f"tfquiver: {plain_text.plain(_unknown(known.values(), bytes_per_s))}", file=sys.stderr)
    return 0


def _was(pinned: Iterable[coordinator_pb2.RemoteIO]) -> str:
    """Who takes a rate back wants to know that there was one, and that it was this job's."""
    rate = next((one.allocated_bytes_per_s for one in pinned), 0.0)
    return f"; it was limited to {of_bytes(round(rate))}/s" if rate else "; it had no limit"


def _known(stub: Any, token: str, whom: str) -> dict[str, str]:
    """Jobs that read, or have lately: what the coordinator calls them -> what `tfquiver status` does."""
    sessions = pages.sessions(
        lambda page: calls.ask(stub.ListSessions, page, token, whom), coordinator_pb2.ListSessionsRequest()
    )
    return {info.job: words.job({"job": info.job, "session_key": info.session_key}) for info in sessions}


def named(job: str, known: Mapping[str, str]) -> str:
    """As the coordinator calls a job, whose name may begin with its token's: as `tfquiver explain` finds it. Of one
    that nobody knows, as it was typed: it may be yet to come. `known`: as `_known` gives it.

    Raises InvalidArgumentError: it may be one of several.
    """
    if job in known:
        return job
    meant = sorted(
        name for name, shown in known.items() if shown == job or any(one.endswith(f"/{job}") for one in (name, shown))
    )
    if len(meant) > 1:
        some = ", ".join(map(repr, meant[:_MOST_NAMES])) + (", ..." if len(meant) > _MOST_NAMES else "")
        raise errors.InvalidArgumentError(f"JOB: {job!r} may be one of {some}: say which")
    return meant[0] if meant else job


def _unknown(known: Iterable[str], bytes_per_s: int) -> str:
    """A rate is kept for whatever name: a misspelt one would limit nobody, and nothing would say so."""
    names = sorted(set(known))
    some = ", ".join(map(repr, names[:_MOST_NAMES])) + (", ..." if len(names) > _MOST_NAMES else "")
    kept = "this is kept for one that comes" if bytes_per_s else "nothing is kept for one that comes"
    return f"no job of that name reads now, or has lately: {kept}; known are {some or 'none'}"


def _bytes_per_s(text: str) -> int:
    if text == _NONE:
        return 0
    try:
        rate = sizes.parse_bytes(text.removesuffix("/s"))  # as `tfquiver status` shows it
    except errors.InvalidArgumentError as error:
        raise errors.InvalidArgumentError(f"RATE: {error}, bytes a second; or {_NONE}") from error
    if not rate:
        raise errors.InvalidArgumentError(f"RATE: {text!r}: with 0 bytes a second it would never end; or {_NONE}")
    if text.isdecimal() and rate < _LEAST_WITHOUT_UNIT:  # one was forgotten
        raise errors.InvalidArgumentError(f"RATE: {text} is {many(rate, 'byte')} a second: write {text}MB or {text}kB")
    return rate
