"""What a node has for data sets that have names, wired."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2
from tfquiver.service.node.bodies_sent_between_nodes.incoming import Incoming
from tfquiver.service.node.coordinator_link.coordinator_link import CoordinatorLink
from tfquiver.service.node.coordinator_orders.dataset_tasks import DatasetTasks
from tfquiver.service.node.coordinator_orders.named_orders import NamedOrders, NamedWork
from tfquiver.service.node.dataset_scans.asking import Asking
from tfquiver.service.node.dataset_scans.first_use import DatasetScans
from tfquiver.service.node.dataset_scans.helping import Helping
from tfquiver.service.node.dataset_scans.named_sources import NamedSources
from tfquiver.service.node.dataset_scans.scan import Scanner
from tfquiver.service.node.dataset_scans.shared_scans import SharedScans
from tfquiver.service.node.digests_kept_here.digest_cache import DigestCache
from tfquiver.service.node.digests_kept_here.other_digests import OtherDigests
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.evicting_emptying_removing_leftovers.came_meanwhile import CameMeanwhile
from tfquiver.service.node.evicting_emptying_removing_leftovers.late_evictions import LateEvictions
from tfquiver.service.node.evicting_emptying_removing_leftovers.leftovers import Leftovers
from tfquiver.service.node.evicting_emptying_removing_leftovers.placed_log import PlacedLog
from tfquiver.service.node.evicting_emptying_removing_leftovers.removals import Removals
from tfquiver.service.node.grpc_calls_warm_clear.warming import Warming
from tfquiver.service.node.hanging_disk.hanging import Hanging
from tfquiver.service.node.moving_shards.moves import Moves
from tfquiver.service.node.placing_at_owners_and_writing.placed_here import PlacedHere
from tfquiver.service.node.reading_the_object_store.named_access import NamedAccess
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Fetcher
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes


def wired(
    node_id: str,
    link: CoordinatorLink,
    digests: DigestCache,
    removals: Removals,
    late: LateEvictions,
    scans: DatasetScans,
    scanner: Scanner,
    warm: Callable[[bytes], AsyncGenerator[node_pb2.WarmProgress, None]],
    access: NamedAccess,
    fetcher: Fetcher,
    leftovers: Leftovers,
    token: str,
    scan_share_bytes: int,
    moves: Moves,
    came: CameMeanwhile,
    disk: DiskCache,
) -> tuple[NamedOrders, Helping]:
    """To be closed before what it is given. It is told from now on what is ordered."""
    helping, asking = Helping(scanner, access), Asking(node_id, token)
    shared = SharedScans(node_id, scanner, asking, link.members, scan_share_bytes)
    sources = NamedSources(scans, scanner, digests.get, access, shared.scan)
    hindered = functools.partial(_hindered, node_id, disk.hanging)

    async def let_go(digest_id: bytes) -> None:
        await late.let_go(digest_id)
        await removals.let_go(digest_id)

    work = NamedWork(sources.scan, warm, removals.give_up, leftovers.abandoned, late.done, let_go, hindered)
    tasks = DatasetTasks(node_id, work.do, link.report_task)

    emptied = set[bytes]()

    def ordered(all_tasks: Sequence[pb.DatasetTask]) -> None:
        helping.ordered(all_tasks)
        nonlocal emptied
        emptied = {digest_id for task in all_tasks for digest_id in task.evict.digest_ids}
        late.sure()
        tell_emptied()
        stay = {digest_id for task in all_tasks if not task.evict.abandoned for digest_id in task.evict.digest_ids}
        came.emptied(stay, emptied - stay)
        removals.emptied(emptied, emptied - stay)

    def tell_emptied() -> None:
        moves.emptied(emptied.union(late.due))

    late.on_due = tell_emptied

    def use(named: Sequence[pb.NamedDigest]) -> None:
        late.wanted(named)
        removals.wanted(named)
        access.use(named)

    def after_digests(number: int, named: Sequence[pb.NamedDigest]) -> None:
        removals.told(number)
        late.told(named)

    made = NamedOrders(tasks, digests.here, digests.get, after_digests, use, link.report_stale, ordered)
    link.on_lost_sight = late.unsure
    link.on_named, link.named_version, fetcher.on_stale = made.receive, lambda: made.version, made.stale
    link.scans = lambda: len(scans.works()) + len(helping.works())
    return made, helping


async def cleaners(
    directory: Path,
    disk: DiskCache,
    source: ShardSource,
    digests: DigestCache,
    link: CoordinatorLink,
    moves: Moves,
    warming: Warming,
    incoming: Incoming,
    placed_here: PlacedHere,
) -> tuple[Removals, Leftovers, OtherDigests, LateEvictions, CameMeanwhile]:
    """Running; to be closed before what they are given. What comes by is noted from now on."""

    async def still(digest_ids: Sequence[bytes]) -> None:
        warming.removed(digest_ids)
        await moves.still(digest_ids)

    async def none_coming(hashes: Sequence[bytes]) -> None:
        await incoming.still(hashes)
        await placed_here.still(hashes)

    async def give_up(hashes: Sequence[bytes]) -> None:
        await none_coming(hashes)
        await source.give_up(hashes)

    noted = await asyncio.to_thread(PlacedLog, directory / "placed.log")  # first: it may be refused
    others = OtherDigests(digests.here, digests.peek, digests.get)
    removals = Removals(digests.here, digests.get, others, digests.drop, link.removed_datasets, give_up, still)
    removals.start()

    async def named_here(parts: Prefixes) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        keeping = await removals.keeping()
        named, on_disk = await others.named(parts, keeping), digests.on_disk(keeping)
        return named, named if len(on_disk) == len(keeping) else await others.named(parts, on_disk)

    async def got(digest_id: bytes) -> None:
        await digests.get(digest_id)
        removals.look_again()  # it may have been removed while it came

    leftovers = Leftovers(
        noted, disk.__contains__, named_here, link.unclaimed, got, give_up, time.monotonic, source.on_disk
    )  # fmt: skip
    leftovers.start()
    others.start()
    late = LateEvictions(directory, removals.give_up, source.on_disk)
    await late.start()
    came = CameMeanwhile(
        disk.__contains__, lambda: incoming.coming() | placed_here.coming(), none_coming, others.named, late.again,
        late.emptied,
    )  # fmt: skip

    def placed(hash: bytes) -> None:
        came.placed(hash)
        noted.note(hash)

    disk.on_placed, disk.all_is_placed = placed, lambda: digests.some_unwritten
    return removals, leftovers, others, late, came


def _hindered(node_id: str, hanging: Hanging) -> str:
    """What keeps this node from keeping and letting go; empty: nothing that is known."""
    if not (trouble := hanging.trouble()):
        return ""
    return (
        f"node {node_id}: {trouble}; this goes on by itself when it does: look at that disk, or stop that node if it "
        "is lost"
    )
