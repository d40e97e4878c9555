"""What commands that ask a running service share: where it is, the call, its reply as plain values, narrow tables."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table

from tfquiver import errors, plain_text
from tfquiver.cli.dataset_commands import cache_setting
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.cluster_address import running, service_name
from tfquiver.digests import formats
from tfquiver.grpc_plumbing import rpc
from tfquiver.grpc_plumbing.kept_channels import KeptChannels
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.roles_and_tokens import own_token
from tfquiver.server_reachability import reaching, unreached

CALL_S = 5.0
CONNECT_S = 1.0  # to a node: one that is dead must not hold up what is said of the others
_UNBROKEN = 10_000  # columns
_STOPPED = (
    "it was stopped or killed: where `tfquiver up` or another supervisor runs it, it is back in some seconds, else "
    "start it again, with the flags that it had"
)
AT_ONCE = 256  # each node that is asked takes a descriptor


def add_where(
    parser: argparse.ArgumentParser,
    positional: bool = False,
    which: str = "coordinator (host:port) or cache directory",
    or_running: bool = True,
) -> None:
    """`--service` and `--auth_token_file`; with `positional` WHERE may also stand alone. `or_running`: where nothing is
    named, `where` finds what runs on this machine."""
    add_service(parser, positional, which, or_running)
    add_token(parser)


def add_service(parser: argparse.ArgumentParser, positional: bool, which: str, or_running: bool = True) -> None:
    """Without the token."""
    running_here = ", or the nodes of yours that run on this machine" if or_running else ""
    what = f"{which}; default: what {service_name.VARIABLE} names{running_here}"
    named: Any = parser
    if positional:
        named = parser.add_mutually_exclusive_group()
        named.add_argument("where", nargs="?", metavar="WHERE", help=what)
    named.add_argument("--service", default="", metavar="WHERE", help="the same" if positional else what)


def add_token(parser: argparse.ArgumentParser) -> None:
    """`--auth_token_file`."""
    what = f"file whose first line is the token; default: what {own_token.VARIABLE} names, if anything"
    parser.add_argument("--auth_token_file", default="", metavar="FILE", help=what)


def add_format(parser: argparse.ArgumentParser) -> None:
    """`--format`."""
    parser.add_argument(
        "--format", choices=formats.FORMATS, default=formats.TFRECORD, help="tfrecord (the default): TFRecord files; "
        "bytes: files of any kind, cut by content, which are read through `tfquiver mount`",
    )  # fmt: skip


def where(arguments: argparse.Namespace) -> str:
    """What `add_where`'s arguments name, or what runs on this machine. Raises InvalidArgumentError: nothing, or several
    clusters."""
    found = running.one_named_or_running(given(arguments), command=getattr(arguments, "typed", ""))
    arguments.service = found  # who asks more than once means the same one
    return found


def given(arguments: argparse.Namespace) -> str:
    """What `add_where`'s arguments name; "": nothing."""
    return str(getattr(arguments, "where", None) or arguments.service)


def token(arguments: argparse.Namespace) -> str:
    """Raises InvalidArgumentError naming the file."""
    return own_token.of_user(arguments.auth_token_file, named_by="--auth_token_file")


@contextmanager
def channel(address: str, within_s: float = 0.0, kept: KeptChannels | None = None) -> Iterator[grpc.Channel]:
    """To the coordinator there, which answers. Who waits for it is told so on standard error; UnavailableError: it does
    not answer within `within_s` (0: CALL_S). `kept`: it is one of these; where it was one before,
    the server has answered, and what is asked next says whether it still does."""
    has_answered = kept is not None and address in kept
    with kept.channel(address) if kept is not None else rpc.channel(address) as made:
        if not has_answered:
            reaching.await_ready(made, address, within_s or CALL_S, f"coordinator {address}", say)
        yield made


@contextmanager
def coordinator(arguments: argparse.Namespace) -> Iterator[tuple[Any, str, str]]:
    """Its stub, the token and what it is called, as `ask` takes them. Raises as service_name.coordinator_address."""
    address = service_name.coordinator_address(where(arguments))
    with channel(address) as to_it:
        yield coordinator_pb2_grpc.CoordinatorStub(to_it), token(arguments), f"coordinator {address}"


def node_channel(address: str, kept: KeptChannels | None = None) -> AbstractContextManager[grpc.Channel]:
    return rpc.channel(address, CONNECT_S) if kept is None else kept.channel(address, CONNECT_S)


def say(line: str) -> None:
    print(f"tfquiver: {plain_text.plain(line)}", file=sys.stderr, flush=True)


def ask(method: Callable[..., Any], request: Any, token: str, whom: str, timeout_s: float = 0.0) -> Any:
    """The reply. Raises the typed error, which names `whom`. `timeout_s` 0: CALL_S."""
    timeout_s = timeout_s or CALL_S
    try:
        return method(request, timeout=timeout_s, metadata=rpc.metadata(token), wait_for_ready=True)
    except grpc.RpcError as error:
        raise typed(error, whom, timeout_s) from error


def ask_if_known(method: Callable[..., Any], request: Any, token: str, whom: str, timeout_s: float = 0.0) -> Any:
    """As `ask`; None: the server is older than this call."""
    try:
        return ask(method, request, token, whom, timeout_s)
    except errors.TfquiverError as error:
        if is_unknown(error):
            return None
        raise


def is_unknown(error: errors.TfquiverError) -> bool:
    """Whether the server that answers so is older than the call."""
    cause = error.__cause__
    return isinstance(cause, grpc.RpcError) and cause.code() is grpc.StatusCode.UNIMPLEMENTED


class GoneError(errors.UnavailableError):
    """Nobody listens at a node's address, or another node does."""


Asked = tuple[Callable[..., Any], Any, str]  # a method, its request, and whom it asks


def ask_all(
    questions: Sequence[Asked], token: str, wait_for_ready: bool = True, timeout_s: float = 0.0
) -> Iterator[Any]:
    """The replies in order, each a message or the typed error; a few hundred are asked at once.

    `wait_for_ready` False: whom a channel's first attempt to connect does not reach (CONNECT_S, as `node_channel` has
    it) is taken for silent; who is connected still has `timeout_s` (0: CALL_S).
    """
    metadata, timeout_s = rpc.metadata(token), timeout_s or CALL_S
    for at in range(0, len(questions), AT_ONCE):
        calls = [
            (method.future(request, timeout=timeout_s, metadata=metadata, wait_for_ready=wait_for_ready), whom)  # type: ignore[attr-defined]
            for method, request, whom in questions[at : at + AT_ONCE]
        ]
        for call, whom in calls:
            try:
                yield call.result()
            except grpc.RpcError as error:
                # Why one is not reached takes a look at it: of hundreds that would add up.
                not_connected = not wait_for_ready and error.code() is grpc.StatusCode.UNAVAILABLE
                within_s = CONNECT_S if not_connected else timeout_s
                silent = errors.UnavailableError(f"{whom} does not answer within {within_s:g} s")
                if not_connected and unreached.refused(error.details() or ""):
                    silent = GoneError(f"{whom} does not answer: {unreached.REFUSED}; {_STOPPED}")
                found = silent if not_connected or _is_silent(error) else rpc.from_rpc_error(error, whom)
                found.__cause__ = error
                yield found


def from_node(node_id: str, reply: Any, whom: str) -> Any:
    """What it answered to Node.Status, as `ask_all` has it; GoneError where another node did: the port of one that is
    gone may be somebody else's, another cluster's perhaps."""
    if isinstance(reply, errors.TfquiverError) or reply.node.node_id == node_id:
        return reply
    return GoneError(f"{whom} is gone: another node, {reply.node.node_id}, is there now")


def typed(error: grpc.RpcError, whom: str, timeout_s: float = 0.0) -> errors.TfquiverError:
    """Of a call that failed: in the server's words, or why it is not reached. `whom` ends with its address."""
    is_silent = _is_silent(error)
    if not is_silent and error.code() is not grpc.StatusCode.UNAVAILABLE:
        return rpc.from_rpc_error(error, whom)
    within = f" within {timeout_s:g} s" if is_silent and timeout_s else ""
    if reason := unreached.why(whom.rpartition(" ")[2], ""):
        return errors.UnavailableError(f"{whom} does not answer{within}: {reason}")
    return errors.UnavailableError(f"{whom} does not answer{within}") if within else rpc.from_rpc_error(error, whom)


def _is_silent(error: grpc.RpcError) -> bool:
    # The server's own words about a deadline are more than gRPC's.
    return error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and error.details() == "Deadline Exceeded"


def plain(message: Any) -> dict[str, Any]:
    """Fields by name; integers as such, bytes in hexadecimal digits."""
    fields: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _numbers(message, fields)


def _numbers(message: Any, fields: dict[str, Any]) -> dict[str, Any]:
    # JSON has no 64-bit integers, so the mapping writes them as strings, and bytes as base64: undo both.
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue  # of names to names, in all that is asked here
        if field.message_type is not None:
            inner = fields.get(field.name)
            if isinstance(inner, dict):
                _numbers(value, inner)
            elif isinstance(inner, list):
                for one, its in zip(value, inner, strict=True):
                    _numbers(one, its)
        elif field.name not in fields:
            continue  # optional, and not set
        elif isinstance(value, bytes):
            fields[field.name] = value.hex()
        elif isinstance(value, int) and not isinstance(value, bool) and field.enum_type is None:
            fields[field.name] = value
    return fields


def settings(stub: Any, listed: coordinator_pb2.ListDatasetsReply, token: str, whom: str) -> list[dict[str, Any]]:
    """Data sets as plain values, each with its `cache` setting. `listed`: with settings. Where the coordinator is older
    and tells none, each is asked for; one that is removed meanwhile is left out."""
    datasets = listed.datasets
    if len(listed.settings) == len(datasets):
        both = zip(datasets, listed.settings, strict=True)
        return [plain(dataset) | {"cache": cache_setting.plain(its)} for dataset, its in both]
    questions = [(stub.GetCache, coordinator_pb2.GetCacheRequest(digest_id=one.digest_id), whom) for one in datasets]
    told = []
    for dataset, reply in zip(datasets, ask_all(questions, token), strict=True):
        if isinstance(reply, errors.NotFoundError):
            continue
        if isinstance(reply, errors.TfquiverError):
            raise reply
        told.append(plain(dataset) | {"cache": cache_setting.plain(reply)})
    return told


def datasets_table(told: Sequence[dict[str, Any]]) -> Table:
    """Of what `settings` gave."""
    made = table("data set", "digest", "shards", "records", "size", "cached", "how")
    made.columns[0].no_wrap = False  # the others are never narrower than what is in them
    made.columns[0].overflow = "ellipsis"
    for one in told:
        counts = (str(one["shards"]), str(one["records"]))
        size, cache = words.size(one["size_bytes"]), cache_setting.text(one["cache"], one["size_bytes"])
        name = f"{cut(one['name'], 22)} (Old)" if one.get("old") else cut(one["name"], 28)
        made.add_row(name, one["digest_id"][:8], *counts, size, words.resident(one), cache)
    return made


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """As of `print`: rich would end the process, with exit code 1."""
        raise BrokenPipeError


def console(**arguments: Any) -> Console:
    """Takes text as it is: names that others chose may look like markup. In a pipe or a file no line is broken, for who
    looks for a word there, unless a width is given (COLUMNS)."""
    made = _Console(markup=False, emoji=False, highlight=False, **arguments)
    if not made.is_terminal and "width" not in arguments and not os.environ.get("COLUMNS"):
        made.width = _UNBROKEN
    return made


def table(*headings: str) -> Table:
    """Narrow: it is read in terminals of 80 columns. Headings and figures are never cut, names are."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for number, heading in enumerate(headings):
        made.add_column(heading, justify="right" if number else "left", no_wrap=True, min_width=len(heading))
    return made


def cut(name: str, most: int) -> str:
    """A name that others chose, printable, and no wider than `most` columns: characters of some scripts take two."""
    name = plain_text.plain(name)
    return name if cell_len(name) <= most else f"{set_cell_size(name, most - 1).rstrip()}…"
