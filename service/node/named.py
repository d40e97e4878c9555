"""What a node has for data sets that have names, wired."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from tfquiver.proto.tfquiver.v1 import node_pb2
from tfquiver.service.node.coordinator.coordinator_link import CoordinatorLink
from tfquiver.service.node.datasets.digest_cache import DigestCache
from tfquiver.service.node.datasets.ensure import DatasetScans
from tfquiver.service.node.datasets.named_sources import NamedSources
from tfquiver.service.node.datasets.removals import Removals
from tfquiver.service.node.datasets.scan import Scanner
from tfquiver.service.node.orders.dataset_tasks import DatasetTasks
from tfquiver.service.node.orders.named_orders import NamedOrders, NamedWork
from tfquiver.service.node.origin.fetcher import Fetcher
from tfquiver.service.node.origin.named_access import NamedAccess


def wired(
    node_id: str,
    link: CoordinatorLink,
    digests: DigestCache,
    removals: Removals,
    scans: DatasetScans,
    scanner: Scanner,
    warm: Callable[[bytes], AsyncGenerator[node_pb2.WarmProgress, None]],
    access: NamedAccess,
    fetcher: Fetcher,
) -> NamedOrders:
    """To be closed before what it is given. It is told from now on what is ordered."""
    sources = NamedSources(scans, scanner, digests.get, access)
    work = NamedWork(sources.scan, warm, removals.give_up)
    tasks = DatasetTasks(node_id, work.do, link.report_task)
    made = NamedOrders(tasks, digests.here, digests.get, removals.told, access.use, link.report_stale)
    link.on_named, fetcher.on_stale = made.receive, made.stale
    return made
