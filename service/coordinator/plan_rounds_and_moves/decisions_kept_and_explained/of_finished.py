"""What is told of a job that reads no more: what was known at last. Pure."""

from __future__ import annotations

from typing import Any

from tfquiver.service.coordinator.history_of_the_last_day.finished_jobs import FinishedJob
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explain import Explanation, Share
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes, of_rate

_HARDLY = 0.1


def explain_finished(job: FinishedJob, ago_s: float, policy: str, history: tuple[dict[str, Any], ...]) -> Explanation:
    measured, totals = job.measured, job.totals
    handed_bytes = totals.hit_bytes + totals.missed_bytes if totals else 0
    hits = totals.hit_bytes / handed_bytes if totals and handed_bytes else 0.0
    rate = measured.bytes_per_s if measured else 0.0
    told = {
        "ago_s": ago_s, "dataset": job.dataset, "epoch": job.epoch, "whole": job.whole,
        "acked": job.acked, "shards": job.shards, "next_run": _next_run(job, hits),
    }  # fmt: skip
    if totals:
        told |= {
            "read_bytes": totals.size_bytes,
            "hit_bytes": totals.hit_bytes,
            "missed_bytes": totals.missed_bytes,
        }
    share = Share(job.allocation, hits, rate, rate * (1 - hits), None, measured is not None)
    reasons = {job.name: _sentence(job, ago_s)}
    return Explanation("job", job.name, policy, share, reasons, "", (), history, finished=told)


def _next_run(job: FinishedJob, hits: float) -> str:
    """What to do otherwise, as far as it was measured."""
    if job.measured is None or job.totals is None:
        return ""
    waited = f"waited for data for {job.measured.stall_share:.0%} of its time"
    if job.measured.stall_share < _HARDLY:
        return f"at last it {waited}: more cache would hardly make the next run faster"
    if 1 - hits < _HARDLY:
        return (
            f"at last it {waited}, though {hits:.0%} of what it read came from the cache: look at what stands before "
            "and behind the source (tfquiver.explain_input), not at the cache"
        )
    return (
        f"at last it {waited}, and {1 - hits:.0%} of what it read came from the store: the next run reads faster the "
        "more of its data is cached: read them into the cache before it starts (`tfquiver warm`), or give them more "
        "room (a larger --quota, more nodes, `tfquiver dataset set-cache`)"
    )


def _sentence(job: FinishedJob, ago_s: float) -> str:
    how = (
        "finished"
        if job.whole
        else f"left in epoch {job.epoch} with {job.acked} of {many(job.shards, 'shard')} confirmed,"
    )
    said = f"{how} {_ago(ago_s)} ago"
    if totals := job.totals:
        said += (
            f": had read {of_bytes(totals.size_bytes)} of {job.dataset}, {of_bytes(totals.missed_bytes)} from the store"
        )
    if job.measured:
        said += f", at last {of_rate(job.measured.bytes_per_s)}, waiting for {job.measured.stall_share:.0%} of its time"
    return said


def _ago(seconds: float) -> str:
    for name, unit_s in (("hour", 3600.0), ("minute", 60.0)):
        if seconds >= unit_s:
            return many(int(seconds / unit_s), name)
    return many(max(0, int(seconds)), "second")
