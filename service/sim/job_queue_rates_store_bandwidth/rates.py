"""How fast each running job reads, and what the store gives it, from what it finds resident. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfquiver.service.sim.job_queue_rates_store_bandwidth.alternating import share_in_turns
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Bools, Floats, Ints, share, some


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes/s of each running job."""

    read: Floats
    fetched: Floats  # from the store; of a cooperative data set its part of what is fetched for all


@dataclass(frozen=True, slots=True)
class Store:
    """What it gives, in bytes/s, and to whom while that is less than all want: by job what was promised, and its weight
    for the rest."""

    limit: float
    promised: Floats | None  # None: nothing to anybody
    weights: Floats | None  # None: all weigh the same


def rates(
    ideals: Floats, hits: Floats, store: Store, datasets: Ints, cooperative: Bools | None, in_turns: bool
) -> Rates:
    """SiloDPerf (equation 4) of every job, with bandwidth as promised and lent, or shared by weight.

    What a cooperative data set's jobs miss is fetched once, at the pace of the fastest: one flow with their weight.

    Args:
      cooperative: who reads such a data set; None: nobody.
      in_turns: who finds a part resident reads that first, and wants nothing of the store meanwhile.
    """
    missed = 1 - hits
    if not len(ideals):  # sums over nobody are of another type
        return Rates(missed, missed)
    if not in_turns and (cooperative is None or not some(cooperative)):
        got = share(np.maximum(ideals * missed, 0.0), store.promised, store.limit, store.weights)
        read = _read(ideals, missed, got)
        return Rates(read, read * missed)
    nobody, one = np.zeros(len(ideals)), np.ones(len(ideals))
    weighed = one if store.weights is None else store.weights
    promises = nobody if store.promised is None else store.promised
    cooperative = nobody > 0 if cooperative is None else cooperative
    _, flows = np.unique(np.where(cooperative, datasets, -1 - np.arange(len(ideals))), return_inverse=True)
    count = int(flows.max(initial=-1)) + 1
    wanted, most = np.maximum(ideals * missed, 0.0), np.zeros(count)
    promised, weights = (np.bincount(flows, each, count).astype(np.float64) for each in (promises, weighed))
    demands = np.zeros(count)
    np.maximum.at(demands, flows, wanted)
    if in_turns:
        speeds = np.zeros(count)
        np.maximum.at(speeds, flows, np.where(wanted >= demands[flows], ideals, 0.0))
        given = share_in_turns(speeds, demands / speeds, promised, store.limit, weights)
    else:
        given = share(demands, promised, store.limit, weights)
    read = _read(ideals, missed, given[flows])
    fetched = read * missed
    np.maximum.at(most, flows, fetched)
    total = np.bincount(flows, fetched, count)
    return Rates(read, fetched * np.divide(most, total, out=np.zeros_like(total), where=total > 0)[flows])


def _read(ideals: Floats, missed: Floats, got: Floats) -> Floats:
    misses = missed > 0
    if np.count_nonzero(misses) == len(misses):
        return np.minimum(ideals, got / missed)
    return np.minimum(ideals, np.divide(got, missed, out=np.full_like(got, np.inf), where=misses))
