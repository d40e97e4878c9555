"""What jobs do not use of their allocations goes to those that want more. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping

_STEPS = 8  # of an allocation: what a job wants is rounded up, so that rates stay where demand hardly changes
_HEADROOM = 1.25  # a job that uses so much less than it has is taken to need no more


def wanted(allocated: float, used: float, held_back: bool) -> float:
    """What a job seems to want, bytes/s; infinite where it had to wait.

    Args:
      allocated: > 0; `used`: bytes/s since it was last asked.
    """
    if held_back:
        return math.inf
    step = allocated / _STEPS
    return max(1, math.ceil(used * _HEADROOM / step)) * step


def effective_rates(allocated: Mapping[str, float], wants: Mapping[str, float]) -> dict[str, float]:
    """Bytes/s that each job may read. All together what is allocated; nobody gets less than the smaller of what it
    wants and what it is allocated. What is left goes to those who want more, in proportion to their allocations.

    Args:
      allocated: > 0, by job.
      wants: of the same jobs.
    """
    rates = {job: min(wants[job], allocated[job]) for job in allocated}
    spare = sum(allocated.values()) - sum(rates.values())
    hungry = {job for job in allocated if wants[job] > rates[job]}
    while hungry and spare > 0:
        part = spare / sum(allocated[job] for job in hungry)
        sated = {job for job in hungry if wants[job] - rates[job] <= part * allocated[job]}
        for job in sated or hungry:
            more = wants[job] - rates[job] if sated else part * allocated[job]
            rates[job] += more
            spare -= more
        hungry = hungry - sated if sated else set()
    if spare > 0:  # nobody wants it: lenders keep it, to begin with when they want it
        together = sum(allocated.values())
        rates = {job: rate + spare * allocated[job] / together for job, rate in rates.items()}
    return rates
