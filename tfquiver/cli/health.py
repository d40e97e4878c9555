"""`tfquiver health`: whether one server is of use, for probes of Kubernetes and scripts: exit code 0 or 1, one line."""

from __future__ import annotations

import argparse
import math
from typing import Any

import grpc

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cluster_address import service_name
from tfquiver.grpc_plumbing import health, rpc
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint
from tfquiver.proto.tfquiver.v1.health_pb2 import HealthCheckResponse
from tfquiver.server_reachability import unreached

_ABOUT = """Says whether a server is ready, in one line and the exit code (0: yes). WHERE is its own: host:port or
unix:/path of a coordinator, a node, a dispatcher or a worker; or a cache directory, for the node that runs there. No
token is needed."""
# TensorFlow's servers speak no health: a call of each that changes nothing says who it is, and that it answers.
_TENSORFLOW = {
    "dispatcher": "/tensorflow.data.DispatcherService/GetVersion",
    "worker": "/tensorflow.data.WorkerService/GetWorkerTasks",
}
_LONGEST_S = 3600.0


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("health", description=_ABOUT)
    calls.add_service(parser, positional=True, which="host:port, unix:/path or cache directory")
    parser.add_argument(
        "--live", action="store_true", help="only whether it turns at all: one that does not needs a restart"
    )
    parser.add_argument(
        "--timeout_s", type=_seconds, default=5.0, metavar="SECONDS", help="it must answer so soon; default: 5"
    )
    parser.set_defaults(run=_run)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds up to {_LONGEST_S:g}")
    return value


def _run(arguments: argparse.Namespace) -> int:
    where = calls.where(arguments)
    directory = service_name.directory_there(where)
    address = where if directory is None else read_endpoint(directory).local_control
    what = plain_text.shortened(where)
    with rpc.channel(address) as channel:
        try:
            said = health.ask(channel, health.LIVE if arguments.live else "", arguments.timeout_s, what)
        except errors.UnavailableError as error:
            if reason := unreached.why(address, ""):
                raise errors.UnavailableError(f"{error}: {reason}") from error
            raise
        if said is None:
            print(f"{what}: tf.data service {_tensorflow_server(channel, arguments.timeout_s, what)} answers")
            return 0
    if said.status == HealthCheckResponse.SERVING:
        print(f"{what}: {'live' if arguments.live else 'ready'}")
        return 0
    raise errors.UnavailableError(f"{what} is not ready: {said.reason or 'it does not say why'}")


def _tensorflow_server(channel: grpc.Channel, timeout_s: float, what: str) -> str:
    """Which of the two answers. Raises the typed error: neither does."""
    trouble: grpc.RpcError | None = None
    for name, path in _TENSORFLOW.items():
        method = channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
        try:
            method(b"", timeout=timeout_s)
        except grpc.RpcError as error:
            trouble = error
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                break
        else:
            return name
    assert trouble is not None
    raise rpc.from_rpc_error(trouble, what) from trouble
