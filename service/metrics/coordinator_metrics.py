"""What the coordinator knows of nodes, data sets, jobs and workers, as Prometheus wants it.

Every series is of the cluster, or of one of at most so many data sets and jobs: names come from clients, who can make
as many as they like. Which ones: the largest, and those that read most.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tfquiver.plain_text import plain
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import Measured
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers import (
    SILENT_DISPATCHER_S,
    SILENT_WORKER_S,
    is_missed,
)
from tfquiver.shard_owners_chunks_hash_prefixes.labels import is_spot

MOST_DATASETS = 100
MOST_JOBS = 100
_LONGEST_NAME = 128
_JOB = ["training_job"]  # `job` is what Prometheus calls what it scrapes


async def standing_by() -> AsyncIterator[Metric]:
    """All that is told by one that does."""
    yield _stands_by(True)


async def families(coordinator: Coordinator) -> AsyncIterator[Metric]:
    """On the coordinator's loop, which has a turn between any two of them."""
    yield _stands_by(False)
    for part in (_log, _nodes, _workers, _sessions):
        for family in part(coordinator):
            yield family
        await asyncio.sleep(0)
    for long in (_jobs, _datasets):
        async for family in long(coordinator):
            yield family


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"tfquiver_coordinator_{name}", about, value=value)


def _stands_by(does: bool) -> Metric:
    return _gauge("stands_by", "1: another one holds --work_dir, and this one goes on when that has ended.", does)


def _log(coordinator: Coordinator) -> Iterable[Metric]:
    about = "1: the commit log cannot be written, or its disk does not answer, and nothing is decided until it does."
    yield _gauge("commit_log_stuck", about, bool(coordinator.log_trouble))


def _nodes(coordinator: Coordinator) -> Iterable[Metric]:
    live = coordinator.membership.live()
    yield _gauge("nodes", "Nodes that are heard of.", len(live))
    lost = coordinator.membership.lost.told()
    spot = sum(is_spot(one.node.labels) for one in lost)
    about = "Nodes given up within the last hour, and not back; without those of the label lifecycle=spot."
    yield _gauge("lost_nodes", about, len(lost) - spot)
    yield _gauge("lost_spot_nodes", "The same, of those with the label lifecycle=spot.", spot)
    yield _gauge("quota_bytes", "What all nodes may store.", sum(node.quota_bytes for node in live))
    yield _gauge("used_bytes", "What all nodes store.", sum(node.used_bytes for node in live))


def _workers(coordinator: Coordinator) -> Iterable[Metric]:
    dispatchers = coordinator.dispatchers.live()
    workers = [worker for dispatcher in dispatchers for worker in dispatcher.workers]
    silent = sum(is_missed(worker.silent_ms, worker.idle_ms) for worker in workers)
    yield _gauge("dispatchers", "tf.data service dispatchers heard of within 30 s.", len(dispatchers))
    about = f"Silent for {SILENT_DISPATCHER_S:g} s, for a day; not those that left, or were replaced."
    yield _gauge("lost_dispatchers", about, len(coordinator.dispatchers.lost()))
    yield _gauge("workers", "Workers that these count on.", len(workers))
    yield _gauge(
        "silent_workers", f"Of these, without an answer for {SILENT_WORKER_S:g} s; not those long given up.", silent
    )


def _sessions(coordinator: Coordinator) -> Iterable[Metric]:
    open_sessions = len(coordinator.sessions.read())
    yield _gauge("read_sessions", "Sessions that somebody reads.", open_sessions)
    yield _gauge("readers", "Readers, of all sessions.", coordinator.sessions.open_readers)


async def _datasets(coordinator: Coordinator) -> AsyncIterator[Metric]:
    known = coordinator.registry.all()
    yield _gauge("datasets", "Data sets that are registered.", len(known))
    largest = heapq.nlargest(MOST_DATASETS, known, key=lambda one: one.size_bytes)
    size = GaugeMetricFamily("tfquiver_dataset_bytes", "Raw bytes of a data set.", labels=["dataset", "digest"])
    resident = GaugeMetricFamily(
        "tfquiver_dataset_resident_bytes", "Of these, cached; of data sets that have been read.",
        labels=["dataset", "digest"],
    )  # fmt: skip
    for one in largest:
        labels = [_name(one.name), one.digest_id.hex()[:12]]
        size.add_metric(labels, one.size_bytes)
        if (share := coordinator.caching.share(one.digest_id)) is not None:
            resident.add_metric(labels, share.resident_bytes)
            await asyncio.sleep(0)  # of millions of shards it takes some ms
    yield size
    yield resident


async def _jobs(coordinator: Coordinator) -> AsyncIterator[Metric]:
    by_name: dict[str, tuple[float, float, float | None]] = {}
    jobs: dict[str, set[str]] = {}  # of names that are cut several may be one
    parts = InParts()
    for key, _ in coordinator.meters:
        await parts.rest()  # of ten thousand jobs it takes a third of a second
        measured = coordinator.meters.measured_of(key)
        if measured is None:
            continue
        name = _name(job := coordinator.meters.name_of(key))
        by_name[name] = _together(by_name.get(name), measured)
        jobs.setdefault(name, set()).add(job)
    yield _gauge("jobs", "Jobs that read now.", len(by_name))
    shown = heapq.nlargest(MOST_JOBS, by_name, key=lambda name: by_name[name][0])
    rate = GaugeMetricFamily("tfquiver_job_bytes_per_second", "What a job reads, over ten seconds or so.", labels=_JOB)
    stall = GaugeMetricFamily(
        "tfquiver_job_stall_ratio", "Of a job's readers' time: waited for records (of the data set waited for most).",
        labels=_JOB,
    )  # fmt: skip
    share = GaugeMetricFamily("tfquiver_job_hit_ratio", "Of the bytes read: came from the cache.", labels=_JOB)
    hits = CounterMetricFamily("tfquiver_job_hit_bytes", "Handed to the job's readers from the cache.", labels=_JOB)
    misses = CounterMetricFamily("tfquiver_job_missed_bytes", "Handed to them from the store.", labels=_JOB)
    for name in shown:
        bytes_per_s, stalled, hit_share = by_name[name]
        rate.add_metric([name], bytes_per_s)
        stall.add_metric([name], stalled)
        if hit_share is not None:
            share.add_metric([name], hit_share)
        # Also of its data sets that nobody reads just now, as those for validation: without them the sum would fall,
        # and Prometheus takes what falls for counted anew from 0.
        handed = [coordinator.meters.handed_bytes(job) for job in jobs[name]]
        hits.add_metric([name], sum(hit for hit, _ in handed))
        misses.add_metric([name], sum(missed for _, missed in handed))
        await parts.rest()
    for family in (rate, stall, share, hits, misses):
        yield family


def _together(one: tuple[float, float, float | None] | None, other: Measured) -> tuple[float, float, float | None]:
    """Of the data sets of one job: rates add up, of stalls the worst counts, hits are weighed by what is read."""
    if one is None:
        return other.bytes_per_s, other.stall_share, other.hit_share
    bytes_per_s = one[0] + other.bytes_per_s
    hit_share = other.hit_share if one[2] is None else one[2]
    if one[2] is not None and other.hit_share is not None and bytes_per_s > 0:
        hit_share = (one[2] * one[0] + other.hit_share * other.bytes_per_s) / bytes_per_s
    return bytes_per_s, max(one[1], other.stall_share), hit_share


def _name(text: str) -> str:
    return plain(text, _LONGEST_NAME)
