"""Caches of this user that are on one disk: each takes what its quota says, by default 80 % of what was free when it
was started, and of the others it knows nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.amounts import of_bytes
from tfquiver.cli import calls
from tfquiver.cli.doctor.finding import Finding, ok, warn
from tfquiver.cluster_address import running_nodes
from tfquiver.notes_in_cache_and_work_directories.node_endpoint import read_endpoint
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc

_WHAT = "caches on its disk"
_MOST = calls.AT_ONCE
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Claim:
    """What a node may still put there."""

    directory: Path
    quota_bytes: int
    used_bytes: int

    @property
    def left_bytes(self) -> int:
        return max(self.quota_bytes - self.used_bytes, 0)


def finding(directory: Path, token: str) -> Finding | None:
    """None: no other node of this user has its cache on that disk."""
    try:
        device = directory.stat().st_dev
        of_disk = [one for one in running_nodes.directories() if _is_on(device, one)]
        found = os.statvfs(directory)
    except OSError:  # it has just gone
        return None
    if not of_disk[1:] or directory.resolve() not in {one.resolve() for one in of_disk}:
        return None
    return judge(
        [claim for claim in _claims(of_disk[:_MOST], token) if claim.quota_bytes], found.f_bavail * found.f_frsize
    )


def _is_on(device: int, directory: Path) -> bool:
    try:
        return directory.stat().st_dev == device
    except OSError:  # it has just gone
        return False


def judge(claims: Sequence[Claim], free_bytes: int) -> Finding | None:
    """Pure. `claims`: of one disk."""
    if not claims[1:]:
        return None
    left_bytes = sum(claim.left_bytes for claim in claims)
    by_size = sorted(claims, key=lambda claim: -claim.left_bytes)
    some = "; ".join(f"{plain(one.directory)} {of_bytes(one.left_bytes)}" for one in by_size[:_MOST_NAMED])
    said = (
        f"{len(claims)}, which may together take {of_bytes(left_bytes)} more by their quotas, of "
        f"{of_bytes(free_bytes)} that are free ({some}{'; ...' if by_size[_MOST_NAMED:] else ''})"
    )
    if left_bytes <= free_bytes:
        return ok(_WHAT, said)
    do = (
        "give each a quota (tfquiver up DIRECTORY --quota=SIZE, tfquiver.dataset(quota=)), or all one cache_dir, which "
        "then keeps each byte once; else the one that comes last finds no room, and its jobs read the store"
    )
    return warn(_WHAT, said, do)


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
