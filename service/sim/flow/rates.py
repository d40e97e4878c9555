"""How fast each running job reads, and what the store gives it, from what it finds resident. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfquiver.service.sim.flow.sharing import Bools, Floats, Ints, share


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes/s of each running job."""

    read: Floats
    fetched: Floats  # from the store; of a cooperative data set its part of what is fetched for all


def rates(ideals: Floats, hits: Floats, promised: Floats, limit: float, datasets: Ints, cooperative: Bools) -> Rates:
    """SiloDPerf (equation 4) of every job, with bandwidth as promised and lent, or fairly shared.

    What a cooperative data set's jobs miss is fetched once, at the pace of the fastest: one flow with their weight.
    """
    missed = 1 - hits
    flows = np.arange(len(ideals))
    if cooperative.any():
        _, flows = np.unique(np.where(cooperative, datasets, -1 - flows), return_inverse=True)
    count = int(flows.max(initial=-1)) + 1
    demands = np.zeros(count)
    np.maximum.at(demands, flows, ideals * missed)
    weights = np.bincount(flows, minlength=count).astype(np.float64)
    got = share(demands, np.bincount(flows, promised, count).astype(np.float64), limit, weights)[flows]
    read = np.minimum(ideals, np.divide(got, missed, out=np.full_like(got, np.inf), where=missed > 0))
    fetched = read * missed
    if cooperative.any():
        most = np.zeros(count)
        np.maximum.at(most, flows, fetched)
        total = np.bincount(flows, fetched, count)
        fetched = fetched * np.divide(most, total, out=np.zeros_like(total), where=total > 0)[flows]
    return Rates(read, fetched)
