"""Caches of this user that are on one disk: each takes what its quota says, by default 80 % of what was free when it
was started, and of the others it knows nothing. Who starts another one there is told."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc

from tfquiver import errors
from tfquiver.cluster_address import running_nodes
from tfquiver.grpc_plumbing import rpc
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc
from tfquiver.service.common_to_servers import begun_apart
from tfquiver.sizes_durations_amounts.amounts import of_bytes

T = TypeVar("T")
DO = (
    "give each a quota (tfquiver up DIRECTORY --quota=SIZE, tfquiver.dataset(quota=)), or all one cache_dir, which "
    "then keeps each byte once; else the one that comes last finds no room, and its jobs read the store"
)
_MOST, _MOST_NAMED = 16, 5
_ANSWER_S = 1.0


@dataclass(frozen=True, slots=True)
class Claim:
    """What a node may still put there."""

    directory: Path
    quota_bytes: int
    used_bytes: int

    @property
    def left_bytes(self) -> int:
        return max(self.quota_bytes - self.used_bytes, 0)


def beside(directory: Path) -> list[Path]:
    """Where nodes of this user run whose caches are on that one's disk, it among them; none where it is alone there, or
    nobody may look. May wait for the disk."""
    try:
        device = directory.stat().st_dev
        there = [one for one in running_nodes.directories() if _is_on(device, one)]
        return there if there[1:] and directory.resolve() in {one.resolve() for one in there} else []
    except OSError:  # it has just gone
        return []


def others(directory: Path) -> list[Path]:
    """As `beside`, without it."""
    return [one for one in beside(directory) if one.resolve() != directory.resolve()]


def _is_on(device: int, directory: Path) -> bool:
    try:
        return directory.stat().st_dev == device
    except OSError:  # it has just gone
        return False


def free_bytes(directory: Path) -> int:
    """Raises OSError."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def said(claims: Sequence[Claim], free: int) -> str:
    """Of what together they may still take (pure)."""
    by_size = sorted(claims, key=lambda claim: -claim.left_bytes)
    some = "; ".join(f"{plain(one.directory)} {of_bytes(one.left_bytes)}" for one in by_size[:_MOST_NAMED])
    return (
        f"{len(claims)}, which may together take {of_bytes(left_bytes(claims))} more by their quotas, of "
        f"{of_bytes(free)} that are free ({some}{'; ...' if by_size[_MOST_NAMED:] else ''})"
    )


def left_bytes(claims: Sequence[Claim]) -> int:
    return sum(claim.left_bytes for claim in claims)


async def warning(directory: Path, token: str) -> str:
    """For who has just started the node of that directory; "": it is alone on its disk, or there is room for all that
    answer."""
    there = await _looked(others, directory)
    if not there:
        return ""
    own, *theirs = await asyncio.gather(*(_claim(one, token) for one in [directory, *there[:_MOST]]))
    claims = [one for one in (own, *theirs) if one is not None]
    if own is None or not own.left_bytes or not claims[1:]:
        return ""
    try:
        return warning_of(claims, await _looked(free_bytes, directory))
    except OSError:  # it has just gone
        return ""


def warning_of(claims: Sequence[Claim], free: int) -> str:
    """Pure."""
    return f"caches on one disk: {said(claims, free)}: {DO}" if left_bytes(claims) > free else ""


async def _claim(directory: Path, token: str) -> Claim | None:
    """None: it does not answer, not to this token, or keeps nothing."""
    try:
        control = (await _looked(read_endpoint, directory)).local_control
        async with rpc.aio_channel(control) as channel:
            stub: Any = node_pb2_grpc.NodeStub(channel)
            asked = stub.Status(node_pb2.StatusRequest(), timeout=_ANSWER_S, metadata=rpc.metadata(token))
            node = (await asked).node
    except (errors.TfquiverError, grpc.RpcError):
        return None
    return Claim(directory, node.quota_bytes, node.used_bytes) if node.quota_bytes else None


async def _looked(look: Callable[[Path], T], directory: Path) -> T:
    """What it finds. The disk of any cache may hang: the end of the process does not wait for it."""
    return await asyncio.wrap_future(begun_apart.begun("caches on this disk", functools.partial(look, directory)))
