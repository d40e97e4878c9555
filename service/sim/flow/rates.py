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
    if not cooperative.any():
        got = share(np.maximum(ideals * missed, 0.0), promised, limit, np.ones(len(ideals)))
        read = _read(ideals, missed, got)
        return Rates(read, read * missed)
    _, flows = np.unique(np.where(cooperative, datasets, -1 - np.arange(len(ideals))), return_inverse=True)
    count = int(flows.max(initial=-1)) + 1
    demands, most = np.zeros(count), np.zeros(count)
    np.maximum.at(demands, flows, ideals * missed)
    weights = np.bincount(flows, minlength=count).astype(np.float64)
    got = share(demands, np.bincount(flows, promised, count).astype(np.float64), limit, weights)[flows]
    read = _read(ideals, missed, got)
    fetched = read * missed
    np.maximum.at(most, flows, fetched)
    total = np.bincount(flows, fetched, count)
    return Rates(read, fetched * np.divide(most, total, out=np.zeros_like(total), where=total > 0)[flows])


def _read(ideals: Floats, missed: Floats, got: Floats) -> Floats:
    return np.minimum(ideals, np.divide(got, missed, out=np.full_like(got, np.inf), where=missed > 0))
