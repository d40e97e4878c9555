"""The store's bandwidth among flows that do not want it all the time. Pure.

A job reads what is resident first and the rest after that, so a flow with a hit ratio wants all of its speed for a part
of the time, and nothing in between. Many such flows want together what they want on average; of a few, two may want it
at the same moment, and while one wants nothing the others have it all. Which of them want it at a moment is taken to be
independent.
"""

from __future__ import annotations

import numpy as np

from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Bools, Floats, Ints, share

MOST = 6  # that alternate: 64 moments; more are as good as many
_ROUNDS = 30
_NEVER, _ALWAYS = 1e-9, 1 - 1e-9


def share_in_turns(speeds: Floats, missed: Floats, promised: Floats, limit: float, weights: Floats) -> Floats:
    """What each is given on average, in bytes/s.

    Args:
      speeds: what each reads when it never waits, above 0.
      missed: the part of that which comes from the store.
      promised, limit, weights: as in `share`.
    """
    demands = speeds * missed
    turns = np.flatnonzero((missed > _NEVER) & (missed < _ALWAYS))
    wanting = missed > _NEVER
    if speeds[wanting].sum() <= limit or not 0 < len(turns) <= MOST:
        return share(demands, promised, limit, weights)
    on = np.tile(wanting, (2 ** len(turns), 1))  # moment, flow
    on[:, turns] = (np.arange(len(on))[:, None] >> np.arange(len(turns))) & 1
    given = np.array([share(np.where(row, speeds, 0.0), promised, limit, weights) for row in on])
    rate = speeds.copy()  # while it misses
    for _ in range(_ROUNDS):
        rate = _while_missing(on, given, _time_missing(speeds, missed, rate), turns, speeds)
    time_s = missed / np.maximum(rate, _NEVER) + (1 - missed) / speeds  # of a byte
    return np.minimum(np.where(wanting, missed / time_s, 0.0), demands)


def _time_missing(speeds: Floats, missed: Floats, rate: Floats) -> Floats:
    """The part of its time in which each wants something of the store."""
    missing_s = missed / np.maximum(rate, _NEVER)
    return np.asarray(missing_s / (missing_s + (1 - missed) / speeds))


def _while_missing(on: Bools, given: Floats, time: Floats, turns: Ints, speeds: Floats) -> Floats:
    """The mean over the moments in which each wants something."""
    each = np.where(on[:, turns], time[turns], 1 - time[turns]).prod(axis=1)
    likely = np.where(on, each[:, None], 0.0)
    total = likely.sum(axis=0)
    mean = np.divide((likely * given).sum(axis=0), total, out=speeds.copy(), where=total > 0)
    return np.asarray(mean)
