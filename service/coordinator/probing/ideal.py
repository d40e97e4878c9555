"""f*: what a job reads where data is never waited for, by its readers' waiting and by its trainer's own. Pure."""

from __future__ import annotations

from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import MOST_STALL_SHARE, Measured
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meter import Steps
from tfquiver.service.coordinator.probing.probe import ProbeResult

_MOST_OF_ALL = 0.75  # of what is read: less, and there is another who takes the rest


def ideal_bytes_per_s(measured: Measured, steps: Steps | None) -> float | None:
    """None: nearly all of it was waiting, as far as is known. Both are bounds from above: the lesser counts. What a
    trainer says of its waiting can make itself slower, and nobody faster."""
    known = [measured.ideal_bytes_per_s]
    if (
        steps
        and steps.waited_share is not None
        and steps.waited_share <= MOST_STALL_SHARE
        and not _one_of_many(measured, steps)
    ):
        known.append(measured.bytes_per_s / (1 - steps.waited_share))
    return min((one for one in known if one is not None), default=None)


def _one_of_many(measured: Measured, steps: Steps) -> bool:
    """The only process that says something takes, by what it says, far less than the job's readers deliver: there are
    others that it waits for within its steps."""
    if not steps.batch_records or steps.step_s is None or steps.between_s is None:
        return False
    each_s = steps.step_s + steps.between_s
    return steps.batch_records < _MOST_OF_ALL * measured.records_per_s * each_s


def could_read(measured: Measured, probed: ProbeResult | None, steps: Steps | None = None) -> float | None:
    """f* for plans. Whoever has done nothing but wait is taken to read as much faster as can be measured: given a
    cache, it is seen what it makes of that; with less it would never be given any. What it has once made of one is the
    most: behind a prefetch the reader waits for the store also while the trainer computes."""
    could = ideal_bytes_per_s(measured, steps) or measured.bytes_per_s / (1 - MOST_STALL_SHARE)
    if probed and probed.basis == "hit":
        could = min(could, probed.hit_bytes_per_s)
    return could or None


def is_guess(measured: Measured, probed: ProbeResult | None, steps: Steps | None = None) -> bool:
    """What `could_read` says has not been measured: for plans it will do, as a promise it would not."""
    return ideal_bytes_per_s(measured, steps) is None and not (probed and probed.basis == "hit")
