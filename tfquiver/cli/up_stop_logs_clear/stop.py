"""`tfquiver stop`: ends what runs in a directory on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cli.up_stop_logs_clear import unnamed
from tfquiver.cluster_address import running_nodes, service_name
from tfquiver.cluster_address.running import to_be_stopped
from tfquiver.grpc_plumbing import addresses, pages, rpc
from tfquiver.local_cluster import stopping
from tfquiver.node_daemon_and_notes_in_directories import server_file, up_file, whose_files
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, node_pb2, node_pb2_grpc


def add_parser(subparsers: Any) -> None:
    about = (
        "Stops `tfquiver up`, or the node that runs in a cache directory of this machine, or the coordinator or "
        "dispatcher whose --work_dir it is. What is cached stays. What nobody has named is not stopped, but for --yes."
    )
    parser = subparsers.add_parser("stop", description=about)
    which = "cache directory of this machine, or --work_dir of a coordinator or a dispatcher"
    calls.add_where(parser, positional=True, which=which, or_running=False)
    parser.add_argument("--force", action="store_true", help="also what somebody is reading through")
    yes = (
        "where nothing is named: the only node of yours that runs on this machine, if `tfquiver up` or "
        "tfquiver.dataset started it, the directory is yours, and no reader is connected"
    )
    parser.add_argument("--yes", action="store_true", help=yes)
    parser.set_defaults(run=_run)


def _directory(arguments: argparse.Namespace) -> Path:
    """Raises InvalidArgumentError: none is named, or what is named is none."""
    where = to_be_stopped(calls.given(arguments), arguments.yes)
    named = service_name.directory_of(where)
    try:
        is_there = named is not None and named.is_dir()
    except (OSError, ValueError):
        is_there = False
    if named is None or not is_there:
        but = _found_at(where) if named is None else ""
        shown = plain_text.shortened(where)
        raise errors.InvalidArgumentError(f"stop: {shown} is not a cache directory of this machine{but}")
    return named


def _found_at(address: str) -> str:
    """Of a server at that address: how it is stopped."""
    at = next((one for one in running_nodes.work_dirs() if _is_at(one, address)), None)
    if at is None:
        return ", but an address: name the directory of what runs here; what runs elsewhere is stopped there"
    up = at.parent if up_file.is_up(at.parent) else at
    return f", but an address, that of a server in {plain_text.plain(at)}: tfquiver stop {plain_text.for_shell(up)}"


def _is_at(work_dir: Path, address: str) -> bool:
    server = server_file.running(work_dir)
    try:
        return server is not None and addresses.split(server.address)[1] == addresses.split(address)[1]
    except ValueError:
        return False


def _run(arguments: argparse.Namespace) -> int:
    at = _directory(arguments)
    if not service_name.chosen(calls.given(arguments)):
        unnamed.check(at, lambda: _connected(at, calls.token(arguments)))
    stopped = stopping.stop(at, lambda: _readers(at, calls.token(arguments)), arguments.force)
    if not stopped and (files := whose_files.others(at)):
        raise errors.InvalidArgumentError(
            f"stop: nothing runs in {plain_text.plain(at)}: it is {files}; name what cache_dir= or `tfquiver up` was "
            "given (`tfquiver status` shows the directories of what runs here)"
        )
    said = f"stopped {stopped}" if stopped else "nothing runs there"
    print(f"{plain_text.plain(at)}: {said}")
    return 0


def _readers(at: Path, token: str) -> int:
    """In the middle of an epoch; of a node that does not answer: none. An iterator that has ended may still be held.

    The coordinator knows who is; one that is not of this directory alone knows of others' readers, too.
    """
    try:
        if server := server_file.running(at):
            return _in_epochs(server.coordinator, token, f"coordinator {server.coordinator}")
        endpoint = read_endpoint(at)
        with rpc.channel(endpoint.local_control) as channel:
            stub = node_pb2_grpc.NodeStub(channel)
            connected = calls.ask(stub.Status, node_pb2.StatusRequest(), token, f"node {at}").readers
        if not connected or not (endpoint.coordinator.startswith("unix:") or up_file.is_up(at)):
            return int(connected)
        return _in_epochs(endpoint.coordinator, token, f"node {at}")
    except (errors.NotFoundError, errors.DataLossError, errors.UnavailableError):
        return 0
    except errors.UnauthenticatedError as error:
        raise errors.UnauthenticatedError(f"{error}; or --force, which asks nobody whether somebody reads") from error


def _connected(at: Path, token: str) -> int:
    """To its node, also between epochs, or in an epoch of its coordinator."""
    try:
        with rpc.channel(read_endpoint(at).local_control) as channel:
            stub = node_pb2_grpc.NodeStub(channel)
            if count := int(calls.ask(stub.Status, node_pb2.StatusRequest(), token, f"node {at}").readers):
                return count
    except (errors.NotFoundError, errors.DataLossError, errors.UnavailableError):
        pass
    return _readers(at, token)


def _in_epochs(coordinator: str, token: str, whom: str) -> int:
    """Readers of all that the coordinator knows."""
    with rpc.channel(coordinator) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        request = coordinator_pb2.ListSessionsRequest(open_only=True)
        sessions = pages.sessions(lambda page: calls.ask(stub.ListSessions, page, token, whom), request)
    return sum(session.readers for session in sessions)
