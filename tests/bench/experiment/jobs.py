"""Training jobs, emulated: real reading through the op, slept steps; each counts the records that it sees.

SiloD (EuroSys'23, section 7) measured such a training step against a real one: throughput is off by at most 4 %.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tests.bench.experiment.remote import Data
from tests.support import numbered

if TYPE_CHECKING:
    import tensorflow as tf

_HURRY = 10.0
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class JobSpec:
    """Buffers are small because the data sets are: what a job holds in its own memory no cache needs to hold, and
    64 MiB of a 150 GB data set are nothing, of a 50 MB one all."""

    name: str
    step_s: float  # of one mini-batch
    batch: int = 32
    epochs: int = 3
    start_s: float = 0.0  # after the others' beginning
    shuffle_bytes: int = 128 << 10
    readahead_bytes: int = 128 << 10
    prefetch: int = 2  # mini-batches between the source and the step
    hold_back: int | None = None  # None: as many as `prefetch`
    # As a trainer does whose accelerator works by itself: the next mini-batch is fetched while a step runs, and follows
    # it at once. So a host that is woken late, by less than a step, takes nothing from the job.
    ahead: bool = False


@dataclass
class Epoch:
    """Seconds since the beginning of all jobs. What was cut short has neither lost nor all records."""

    began_s: float
    ended_s: float = float("nan")
    records: int = 0
    lost: int = 0
    duplicates: int = 0
    complete: bool = False
    first: int = 0  # mini-batches of the job before it

    @property
    def wall_s(self) -> float:
        return self.ended_s - self.began_s


@dataclass
class JobRun:
    spec: JobSpec
    epochs: list[Epoch] = field(default_factory=list)
    asked_s: list[float] = field(default_factory=list)  # of each mini-batch, when the step before it was done
    arrived_s: list[float] = field(default_factory=list)  # and when it was there
    late_s: list[float] = field(default_factory=list)  # by how much each step was longer than it was to be
    records: int = 0  # so far

    @property
    def complete_epochs(self) -> list[Epoch]:
        return [epoch for epoch in self.epochs if epoch.complete]

    @property
    def every_record_once(self) -> bool:
        """I-6: in every epoch that was not cut short; in one that was, none twice."""
        return not any(epoch.lost or epoch.duplicates for epoch in self.epochs)

    def waited_s(self, began_s: float, ended_s: float) -> float:
        """For mini-batches that arrived in between."""
        asked, arrived = np.array(self.asked_s[: len(self.arrived_s)]), np.array(self.arrived_s)
        inside = (arrived >= began_s) & (arrived < ended_s)
        return float(np.maximum(0.0, arrived - asked)[inside].sum())

    def read_s(self, first: int, last: int) -> float:
        """Seconds from the `first` mini-batch's arrival to the `last` one's, of which an epoch's end counts for as long
        as its last step takes: who reads through tf.data service is told of it up to a second later, with a heartbeat
        of its client."""
        between_s = sum(
            max(0.0, epoch.began_s - self.arrived_s[epoch.first - 1] - self.spec.step_s)
            for epoch in self.epochs
            if first < epoch.first <= last
        )
        return self.arrived_s[last] - self.arrived_s[first] - between_s

    def epoch_s(self, skip: int) -> float:
        """Mean seconds of the complete epochs but the first `skip`."""
        return float(np.mean([epoch.wall_s for epoch in self.complete_epochs[skip:]]))


OnEpoch = Callable[[JobRun], None]


class Jobs:
    """Threads, one a job. `on_epoch` is called in a job's thread when an epoch of it is complete."""

    def __init__(
        self,
        specs: Sequence[JobSpec],
        open_dataset: Callable[[JobSpec], tf.data.Dataset],
        data: Data,
        on_epoch: OnEpoch = lambda run: None,
    ) -> None:
        """`open_dataset` gives a job's data set of single records (`spec.batch` 0) or batches of them."""
        self.runs = [JobRun(spec) for spec in specs]
        self._open, self._data, self._on_epoch = open_dataset, data, on_epoch
        self._stop, self._finish = threading.Event(), threading.Event()
        self._errors: list[BaseException] = []
        self._began = 0.0
        self._threads = [
            threading.Thread(target=self._run, args=(run,), name=run.spec.name, daemon=True) for run in self.runs
        ]

    def start(self) -> Jobs:
        datasets = {run.spec.name: self._open(run.spec) for run in self.runs}
        self._datasets = datasets
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began

    def finish(self) -> None:
        """Jobs end with the epoch that they are in, the rest of it with short steps: what was measured is over, but
        what every job sees is checked to the end."""
        self._finish.set()

    def stop(self) -> None:
        """Jobs end at once: the epochs that they are in are cut short."""
        self._end()

    def join(self, deadline_s: float) -> list[JobRun]:
        """Waits for all jobs. Raises what one of them raised, or TimeoutError that tells how far they are."""
        give_up_at = time.monotonic() + deadline_s
        for thread in self._threads:
            thread.join(max(0.0, give_up_at - time.monotonic()))
        self._end()
        if self._errors:
            raise self._errors[0]
        if any(thread.is_alive() for thread in self._threads):
            far = ", ".join(f"{run.spec.name}: {len(run.complete_epochs)} epochs, {run.records}" for run in self.runs)
            raise TimeoutError(f"jobs have not ended after {deadline_s:.0f} s: {far}")
        self._datasets.clear()
        gc.collect()
        return self.runs

    def _end(self) -> None:
        self._finish.set()
        self._stop.set()

    def _run(self, run: JobRun) -> None:
        try:
            if self._finish.wait(run.spec.start_s):
                return
            while len(run.complete_epochs) < run.spec.epochs and not self._finish.is_set():
                self._epoch(run)
        except BaseException as error:  # noqa: BLE001 - handed to join()
            error.add_note(f"job {run.spec.name}")
            self._errors.append(error)
            self._end()

    def _epoch(self, run: JobRun) -> None:
        epoch = Epoch(self.now_s, first=len(run.arrived_s))
        run.epochs.append(epoch)
        seen: list[numbered.Numbers] = []
        iterator = iter(self._datasets[run.spec.name].as_numpy_iterator())
        run.asked_s.append(self.now_s)
        cut_short, due_s = False, self.now_s  # when the step that runs is done
        for element in iterator:
            arrived_s = self.now_s
            run.arrived_s.append(arrived_s)
            part = numbered.numbers(element)
            seen.append(part)
            epoch.records += len(part)
            run.records += len(part)
            if cut_short := self._stop.is_set():
                break
            if not run.spec.ahead:
                due_s = arrived_s + run.spec.step_s
            self._finish.wait(max(0.0, due_s - self.now_s))
            if run.spec.ahead:
                due_s = max(due_s, arrived_s) + run.spec.step_s
            run.late_s.append(max(0.0, self.now_s - due_s))
            if self._finish.is_set():
                time.sleep(run.spec.step_s / _HURRY)
            run.asked_s.append(due_s if run.spec.ahead else self.now_s)
        if run.spec.ahead and not cut_short:
            self._finish.wait(max(0.0, due_s - self.now_s))
        epoch.ended_s = self.now_s
        numbers = np.concatenate(seen) if seen else np.zeros(0, np.int64)
        lost, epoch.duplicates = numbered.lost_and_duplicates(numbers, self._data.records)
        if cut_short:
            return
        del run.asked_s[len(run.arrived_s) :]
        epoch.lost, epoch.complete = lost, True
        self._on_epoch(run)


def options(dataset: Any, prefetch: int) -> tf.data.Dataset:
    """As a trainer has it. Autotuning would hold up the end of each epoch: its thread is joined there, asleep."""
    import tensorflow as tf

    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    return dataset.prefetch(prefetch).with_options(chosen) if prefetch else dataset.with_options(chosen)
