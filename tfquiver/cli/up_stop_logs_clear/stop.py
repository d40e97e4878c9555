"""`tfquiver stop`: ends what runs in a cache directory on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cluster_address import service_name
from tfquiver.cluster_address.running import one_node_named_or_running
from tfquiver.grpc_plumbing import pages, rpc
from tfquiver.local_cluster import stopping
from tfquiver.node_daemon_and_cache_directory import up_file
from tfquiver.node_daemon_and_cache_directory.node_endpoint import read_endpoint
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, node_pb2, node_pb2_grpc


def add_parser(subparsers: Any) -> None:
    about = "Stops `tfquiver up`, or the node that runs in a cache directory of this machine. What is cached stays."
    parser = subparsers.add_parser("stop", description=about)
    calls.add_where(parser, positional=True, which="cache directory of this machine")
    parser.add_argument("--force", action="store_true", help="also what somebody is reading through")
    parser.set_defaults(run=_run)


def directory(arguments: argparse.Namespace, command: str) -> Path:
    """The cache directory that `calls.add_where`'s arguments name, or of the only node that runs on this machine.

    Raises InvalidArgumentError when there is none, or which of several is not said.
    """
    where = one_node_named_or_running(calls.given(arguments))
    named = service_name.directory_of(where)
    try:
        is_there = named is not None and named.is_dir()
    except (OSError, ValueError):
        is_there = False
    if named is None or not is_there:
        raise errors.InvalidArgumentError(
            f"{command}: {plain_text.shortened(where)} is not a cache directory of this machine"
        )
    return named


def _run(arguments: argparse.Namespace) -> int:
    at = directory(arguments, "stop")
    stopped = stopping.stop(at, lambda: _readers(at, calls.token(arguments)), arguments.force)
    said = f"stopped {stopped}" if stopped else "nothing runs there"
    print(f"{plain_text.plain(at)}: {said}")
    return 0


def _readers(at: Path, token: str) -> int:
    """In the middle of an epoch; of a node that does not answer: none. An iterator that has ended may still be held.

    The coordinator knows who is; one that is not of this directory alone knows of others' readers, too.
    """
    try:
        endpoint = read_endpoint(at)
        with rpc.channel(endpoint.local_control) as channel:
            stub = node_pb2_grpc.NodeStub(channel)
            connected = calls.ask(stub.Status, node_pb2.StatusRequest(), token, f"node {at}").readers
        if not connected or not (endpoint.coordinator.startswith("unix:") or up_file.is_up(at)):
            return int(connected)
        with rpc.channel(endpoint.coordinator) as channel:
            coordinator = coordinator_pb2_grpc.CoordinatorStub(channel)
            request = coordinator_pb2.ListSessionsRequest(open_only=True)
            sessions = pages.sessions(
                lambda page: calls.ask(coordinator.ListSessions, page, token, f"node {at}"), request
            )
        return sum(session.readers for session in sessions)
    except (errors.NotFoundError, errors.DataLossError, errors.UnavailableError):
        return 0
    except errors.UnauthenticatedError as error:
        raise errors.UnauthenticatedError(f"{error}; or --force, which asks nobody whether somebody reads") from error
