"""What people are told that a job would read: as much as its measurements support, and no more. Pure.

Plans try a job that has only been seen to wait with more than it was ever seen to read (`probing.ideal`): that is how
it comes to be measured. As a promise it would be one that no cache and no store keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver.service.coordinator.policies.views_and_plans.interface import JobView

_NEARLY_ALL = 0.99  # of what a job reads: what it still waits for then is not the store


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes/s; where it is not known, at least that."""

    bytes_per_s: float
    known: bool


def supported(job: JobView, missing_share: float, modelled_bytes_per_s: float) -> Rate:
    """
    Args:
      missing_share: of what the job reads, the part that comes from the store then.
      modelled_bytes_per_s: by the closed form; it knows what limits the store, and not how long a miss takes.
    """
    most = _most(job)
    if most is None:
        return Rate(min(_as_now(job, missing_share), modelled_bytes_per_s), known=False)
    waits_s = missing_share * _store_s_per_byte(job, most) + _cache_s_per_byte(job, most)
    return Rate(min(1 / (1 / most + waits_s), modelled_bytes_per_s), known=True)


def _most(job: JobView) -> float | None:
    """What it reads where data is never waited for. None: nobody has seen it."""
    if job.ideal_guessed:
        return None
    seen = job.ideal_bytes_per_s or job.hit_bytes_per_s
    return max(seen, job.reads_bytes_per_s or 0.0) if seen else None


def _store_s_per_byte(job: JobView, most: float) -> float:
    """How much longer a byte takes that comes from the store: as probed, or else as it is now. 0: nothing is known."""
    if job.miss_bytes_per_s:
        return max(0.0, 1 / job.miss_bytes_per_s - 1 / most)
    if not job.reads_bytes_per_s or job.hit_ratio is None or job.hit_ratio >= _NEARLY_ALL:
        return 0.0
    return max(0.0, 1 / job.reads_bytes_per_s - 1 / most) / (1 - job.hit_ratio)


def _cache_s_per_byte(job: JobView, most: float) -> float:
    """How much longer a byte takes that comes from the cache, where that is seen: no more of it makes a job faster that
    finds everything there now."""
    if not job.reads_bytes_per_s or job.hit_ratio is None or job.hit_ratio < _NEARLY_ALL:
        return 0.0
    return max(0.0, 1 / job.reads_bytes_per_s - 1 / most)


def _as_now(job: JobView, missing_share: float) -> float:
    """Less where more is missing than now."""
    now, found = job.reads_bytes_per_s or 0.0, job.hit_ratio
    return now if found is None or missing_share <= 1 - found else now * (1 - found) / missing_share
