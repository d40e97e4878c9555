"""Whether the caches of this user that are on one disk have room there for all that they may take."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.doctor.finding import Finding, ok, warn
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc
from tfquiver.service.node import caches_on_this_disk
from tfquiver.service.node.caches_on_this_disk import Claim

_WHAT = "caches on its disk"
_MOST = calls.AT_ONCE


def finding(directory: Path, token: str) -> Finding | None:
    """None: no other node of this user has its cache on that disk."""
    there = caches_on_this_disk.beside(directory)
    try:
        free_bytes = caches_on_this_disk.free_bytes(directory)
    except OSError:  # it has just gone
        return None
    return judge([claim for claim in _claims(there[:_MOST], token) if claim.quota_bytes], free_bytes) if there else None


def judge(claims: Sequence[Claim], free_bytes: int) -> Finding | None:
    """Pure. `claims`: of one disk."""
    if not claims[1:]:
        return None
    said = caches_on_this_disk.said(claims, free_bytes)
    if caches_on_this_disk.left_bytes(claims) <= free_bytes:
        return ok(_WHAT, said)
    return warn(_WHAT, said, caches_on_this_disk.DO)


def _claims(directories: Sequence[Path], token: str) -> list[Claim]:
    """Of those that answer."""
    asked = list[Path]()
    with ExitStack() as stack:
        questions = list[calls.Asked]()
        for directory in directories:
            try:
                control = read_endpoint(directory).local_control
            except errors.TfquiverError:
                continue
            stub: Any = node_pb2_grpc.NodeStub(stack.enter_context(calls.node_channel(control)))
            questions.append((stub.Status, node_pb2.StatusRequest(), f"node {control}"))
            asked.append(directory)
        replies = list(calls.ask_all(questions, token, wait_for_ready=False, timeout_s=calls.CONNECT_S))
    return [
        Claim(directory, reply.node.quota_bytes, reply.node.used_bytes)
        for directory, reply in zip(asked, replies, strict=True)
        if isinstance(reply, node_pb2.StatusReply)
    ]
