"""How a store that gives less than is wanted shares it: it serves requests as they come, so by what each has under way.

A reader has its window: what it has asked for and not got. A cooperative data set is loaded by nodes, so many shards at
a time, however many read it. Pure.
"""

from __future__ import annotations

import numpy as np

from tfquiver.service.node.coordinator_orders.load_plan import PARALLEL_LOADS
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Bools, Floats, Ints
from tfquiver.service.sim.workloads_and_recordings.workload import Workload


class Windows:
    """Of the jobs of a workload. Who has none has the mean of those that do; where none has, all weigh the same: fair
    sharing by jobs."""

    def __init__(self, workload: Workload) -> None:
        windows = np.array([job.window_bytes or np.nan for job in workload.jobs], np.float64)
        known = ~np.isnan(windows)
        self._known = bool(known.any())
        self._windows = np.where(known, windows, windows[known].mean() if self._known else 1.0)
        loads = [PARALLEL_LOADS * workload.shard_bytes(name) for name in workload.datasets]
        self._loads = np.array(loads, np.float64)

    def weights(self, running: Ints, datasets: Ints, cooperative: Bools | None) -> Floats | None:
        """Of the running jobs and their data sets; those of a cooperative one (None: there is none) weigh together what
        its loads do. None: all weigh the same."""
        if not self._known:
            return None
        if cooperative is None:
            return self._windows[running]
        together = np.bincount(datasets[cooperative], minlength=len(self._loads))
        return np.where(cooperative, self._loads[datasets] / np.maximum(together[datasets], 1), self._windows[running])
