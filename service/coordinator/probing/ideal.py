"""f*: what a job reads where data is never waited for, by its readers' waiting and by its trainer's own. Pure."""

from __future__ import annotations

from tfquiver.service.coordinator.probing.job_meter import MOST_STALL_SHARE, Measured
from tfquiver.service.coordinator.probing.step_meter import Steps


def ideal_bytes_per_s(measured: Measured, steps: Steps | None) -> float | None:
    """None: nearly all of it was waiting, as far as is known. Both are bounds from above: the lesser counts. What a
    trainer says of its waiting can make itself slower, and nobody faster."""
    known = [measured.ideal_bytes_per_s]
    if steps and steps.waited_share is not None and steps.waited_share <= MOST_STALL_SHARE:
        known.append(measured.bytes_per_s / (1 - steps.waited_share))
    return min((one for one in known if one is not None), default=None)
