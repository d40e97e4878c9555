"""`tfquiver clear`: deletes what is cached, while the cluster runs or of a directory where none does."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cli.status_asked_watched_explained import cold
from tfquiver.cli.up_stop_logs_clear import clearing
from tfquiver.cluster_address.running import to_be_cleared
from tfquiver.cluster_address.service_name import coordinator_address, directory_of
from tfquiver.grpc_plumbing import rpc
from tfquiver.node_daemon_and_notes_in_directories import whose_files
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, node_pb2, node_pb2_grpc
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

_CLEAR_S = 600.0  # deleting a million files takes minutes
_ABOUT = """Deletes what is cached. Data sets stay registered, and whoever reads goes on: what is missing is read from
the object store again, and cached again. `tfquiver dataset delete` removes one data set, `set-cache NAME none` what is
kept of it. A cache directory where nothing runs is cleared on the disk."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("clear", description=_ABOUT)
    calls.add_where(parser, positional=True, or_running=False)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    where = to_be_cleared(calls.given(arguments))
    at = directory_of(where)
    if at is not None and cold.is_cold(where):
        done = clearing.clear(at)
        _say(str(at), done.entries, done.size_bytes)
        if done.left:
            print(f"  {_stay(done.left)}: {plain_text.plain(done.why)}")
        return int(done.left > 0)
    if at is not None and (files := whose_files.others(at)):
        raise errors.InvalidArgumentError(
            f"clear: nothing was deleted: {plain_text.plain(at)} is {files}; name what cache_dir= or `tfquiver up` was "
            "given. Files of a data set are never deleted"
        )
    address, token = coordinator_address(where), calls.token(arguments)
    trouble = 0
    with ExitStack() as stack:
        coordinator = coordinator_pb2_grpc.CoordinatorStub(stack.enter_context(calls.channel(address)))
        request = coordinator_pb2.ListNodesRequest()
        for node in calls.ask(coordinator.ListNodes, request, token, f"coordinator {address}").nodes:
            stub = node_pb2_grpc.NodeStub(stack.enter_context(rpc.channel(node.control_address)))
            whom = f"node {node.node_id} at {node.control_address}"
            try:
                there = calls.ask(stub.Status, node_pb2.StatusRequest(), token, whom)
                if isinstance(told := calls.from_node(node.node_id, there, whom), errors.TfquiverError):
                    raise told
                reply = calls.ask(stub.Clear, node_pb2.ClearRequest(), token, whom, _CLEAR_S)
            except errors.UnavailableError as error:  # the others are cleared all the same
                print(plain_text.plain(error))
                trouble = 1
                continue
            _say(whom, reply.entries, reply.bytes)
            if reply.left:
                print(f"  {_stay(reply.left)}: the disk does not let go; the node's log says why")
                trouble = 1
    return trouble


def _say(whom: str, entries: int, size_bytes: int) -> None:
    print(f"{plain_text.plain(whom)}: {many(entries, 'shard')} deleted, {of_bytes(size_bytes)} of the disk")


def _stay(left: int) -> str:
    return many(left, "shard stays", "shards stay")
