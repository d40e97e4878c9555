"""What a job could read, from what was measured and probed of it. Pure."""

from __future__ import annotations

from tfquiver.service.coordinator.probing.job_meter import MOST_STALL_SHARE, Measured
from tfquiver.service.coordinator.probing.probe import ProbeResult


def could_read(measured: Measured, probed: ProbeResult | None) -> float | None:
    """f*. Whoever has done nothing but wait is taken to read as much faster as can be measured: given a cache, it is
    seen what it makes of that; with less it would never be given any. What it has once made of one is the most: behind
    a prefetch the reader waits for the store also while the trainer computes."""
    could = measured.ideal_bytes_per_s or measured.bytes_per_s / (1 - MOST_STALL_SHARE)
    if probed and probed.basis == "hit":
        could = min(could, probed.hit_bytes_per_s)
    return could or None
