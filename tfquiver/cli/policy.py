"""`tfquiver policy`: who decides what nobody has set."""

from __future__ import annotations

import argparse
from typing import Any

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1 import coordinator_pb2

_ABOUT = """Says which policy decides how much cache each data set gets that nobody has set; with a name, that one does
from now on, also after the coordinator was started again, until it is started with another --policy than it has now."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("policy", description=_ABOUT)
    parser.add_argument("policy", nargs="?", metavar="POLICY", help="benefit, quiver, silod_greedy, "
                        "max_min_fair, static, lru, none, or one of another package")  # fmt: skip
    calls.add_where(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.policy == "":  # of a script, in which a name is missing
        raise errors.InvalidArgumentError("POLICY: '' is no name; leave it out to be told which one decides")
    with calls.coordinator(arguments) as (stub, token, whom):
        request = coordinator_pb2.SetPolicyRequest(policy=arguments.policy or "")
        told = calls.ask(stub.SetPolicy, request, token, whom)
    chosen = f" (chosen; --policy={plain(told.flag)})" if told.flag and told.flag != told.policy else ""
    if told.trouble:
        chosen = f" ({plain(told.trouble)})"
    print(f"{plain(told.policy)}{chosen}")
    return 0
