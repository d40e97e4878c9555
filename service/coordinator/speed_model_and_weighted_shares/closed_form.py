"""What a job makes of cache and bandwidth: SiloD's closed form (EuroSys'23, section 4), equations 1 to 5. Pure."""

from __future__ import annotations

import math

from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation


def throughput(ideal_bytes_per_s: float, remote_bytes_per_s: float, hit_ratio: float) -> float:
    """Bytes/s that a job reads: min(f*, b / (1 - c/d)) (equations 1, 3 and 4)."""
    if hit_ratio >= 1:
        return ideal_bytes_per_s
    return min(ideal_bytes_per_s, remote_bytes_per_s / (1 - hit_ratio))


def remote_demand(read_bytes_per_s: float, hit_ratio: float) -> float:
    """Bytes/s that leave the store for a job that reads so fast: f (1 - c/d) (equation 2)."""
    return read_bytes_per_s * (1 - hit_ratio)


def cache_efficiency(ideal_bytes_per_s: float, size_bytes: int) -> float:
    """Bytes/s that the store is spared by each byte of cache: f*/d (equation 5)."""
    return ideal_bytes_per_s / max(1, size_bytes)


def hit_ratio(allocation: Allocation, size_bytes: int) -> float:
    """The part of its reads that one job alone finds in the cache, 0 to 1, in the steady state.

    `lru` under an order that is drawn anew each epoch: a record that was read at part x of one epoch and is wanted at
    part y of the next has 1 - x(1 - y) of the data set read since; it is still there when that is below c/d, which has
    the probability s + (1 - s) ln(1 - s) for s = c/d.
    """
    if allocation.mode == "none":
        return 0.0
    share = min(1.0, allocation.cache_bytes / max(1, size_bytes))
    if allocation.mode == "lru" and share < 1:
        return share + (1 - share) * math.log1p(-share)
    return share
