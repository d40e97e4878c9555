"""All that is kept of the last day: of the cluster, of jobs, of data sets, of epochs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.history_of_the_last_day.epochs import Epochs, Seen
from tfquiver.service.coordinator.history_of_the_last_day.heat import HeatMap
from tfquiver.service.coordinator.history_of_the_last_day.series import COARSE, DAY_STEPS, HOUR_STEPS, STEP_S, Series

MOST_JOBS = 512  # 13 kB each
MOST_DATASETS = 128  # 46 kB each
_SILENT_STEPS = 6  # a job that reads no more
_SILENT_COARSE = 2  # a data set that nobody follows any more
MOST_EPOCHS = 1000  # that are told
CLUSTER = ("read_bytes_per_s", "store_bytes_per_s", "stall_share", "jobs", "readers")
JOB = ("bytes_per_s", "stall_share", "hit_share")
Figures = Mapping[str, float]


class Past:
    """`look`, and `job` of each that reads, every STEP_S; steps are numbered by the date: pages agree on them."""

    def __init__(self) -> None:
        self._cluster = {name: Series() for name in CLUSTER}
        self._jobs: OrderedDict[str, dict[str, Series]] = OrderedDict()  # who was heard of last is last
        self._heard: dict[str, int] = {}
        self._heat: OrderedDict[str, HeatMap] = OrderedDict()
        self._epochs = Epochs()

    def look(self, unix_s: float, cluster: Figures, epochs: Iterable[Seen]) -> None:
        step = int(unix_s // STEP_S)
        for name, series in self._cluster.items():
            if name in cluster:
                series.put(step, cluster[name])
        self._epochs.look(epochs, unix_s)

    def job(self, unix_s: float, job: str, figures: Figures) -> None:
        """Takes ten microseconds; there may be thousands. Of more than MOST_JOBS that read those that came first have
        series: others would push one another out at every look."""
        step = int(unix_s // STEP_S)
        found = self._jobs.get(job)
        if found is None:
            if len(self._jobs) >= MOST_JOBS:
                oldest = next(iter(self._jobs))
                if step - _SILENT_STEPS <= self._heard[oldest] <= step:
                    return
                del self._jobs[oldest], self._heard[oldest]
            found = self._jobs[job] = {}
        for name in JOB:
            if name in figures:
                found.setdefault(name, Series()).put(step, figures[name])
        self._jobs.move_to_end(job)
        self._heard[job] = step

    def chunks(self, unix_s: float, digest_id: str, shares: npt.NDArray[np.float64]) -> None:
        """Once in COARSE steps is enough. Of more than MOST_DATASETS those that came first have theirs, as jobs do."""
        step = int(unix_s // STEP_S) // COARSE
        found = self._heat.get(digest_id)
        if found is None:
            if len(self._heat) >= MOST_DATASETS:
                oldest = next(iter(self._heat))
                if step - _SILENT_COARSE <= self._heat[oldest].last <= step:
                    return
                del self._heat[oldest]
            found = self._heat[digest_id] = HeatMap(DAY_STEPS)
        found.put(step, shares)
        self._heat.move_to_end(digest_id)

    def told(
        self,
        unix_s: float,
        day: bool,
        jobs: Sequence[str],
        digest_id: str,
        called: Callable[[bytes], str] = lambda _: "",
    ) -> dict[str, Any]:
        """For JSON. `jobs`: whose series are told; `digest_id`: whose chunks; `called`: as Epochs.told."""
        step = int(unix_s // STEP_S)
        span_s = STEP_S * (COARSE * DAY_STEPS if day else HOUR_STEPS)
        heat = self._heat.get(digest_id)
        return {
            "now_s": round(unix_s),
            "step_s": STEP_S * (COARSE if day else 1),
            "cluster": {name: series.told(step, day) for name, series in self._cluster.items()},
            "jobs": {
                job: {name: series.told(step, day) for name, series in self._jobs[job].items()}
                for job in jobs
                if job in self._jobs
            },
            "epochs": self._epochs.told(unix_s - span_s, MOST_EPOCHS, called),
            "heat": heat.told(step // COARSE) | {"step_s": STEP_S * COARSE} if heat else None,
        }
