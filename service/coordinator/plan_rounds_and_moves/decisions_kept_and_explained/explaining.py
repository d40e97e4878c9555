"""What is told of a data set or a job: of who reads now with what was measured, of who has finished with what was known
at last.

On the coordinator's event loop; the plans that are tried ("with twice the cache") are made in a thread.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.plain_text import shortened
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.history_of_the_last_day import finished_jobs
from tfquiver.service.coordinator.history_of_the_last_day.finished_jobs import FinishedJob, FinishedJobs
from tfquiver.service.coordinator.plan_rounds_and_moves.cluster_view import ClusterViews, allocation_of
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explain import (
    Explanation,
    at_last,
    explain,
    fitting,
    told,
)
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.of_finished import explain_finished
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.others_hidden import without_others
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView
from tfquiver.service.coordinator.policies.views_and_plans.names import Reads, digits_of
from tfquiver.service.coordinator.probing.probes import Probes
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.sizes_durations_amounts.amounts import many, of_rate

# In an error: gRPC writes bytes that are not ASCII as three each, and gives up at 8 KiB.
_MOST_NAMED, _MOST_NAMED_BYTES = 20, 1500
_DIGITS = re.compile(r"[0-9a-fA-F]{6,64}")  # of a digest id: no fewer, that are more likely a name
MOST_JOBS = 100  # of a data set that are told of one by one: of ten thousand the reply would be more than a message


class Explaining:
    def __init__(
        self,
        clock: Clock,
        unix_s: Callable[[], float],
        sessions: Sessions,
        caching: Caching,
        probes: Probes,
        views: ClusterViews,
        planner: Planner,
    ) -> None:
        """`unix_s`: what is to be added to the clock for a date."""
        self._clock, self._unix_s, self._sessions, self._caching = clock, unix_s, sessions, caching
        self._probes, self._views, self.planner = probes, views, planner
        self._finished = FinishedJobs(clock)

    async def note(self) -> None:
        """Those that read no more are remembered; when a sweep ends these are many, and sessions are more."""
        if not (gone := await self._views.note()):
            return
        newest = dict[tuple[str, bytes], Session]()
        for session in self._sessions:
            key = session.reads
            if key in gone and (key not in newest or session.number > newest[key].number):
                newest[key] = session
        for key, seen_at in gone.items():
            self._remember(key, seen_at, newest.get(key))

    async def explain(
        self,
        name: str,
        view: ClusterView,
        now: float,
        may_read: Callable[[bytes], bool],
        owns: Callable[[str], bool],
    ) -> Explanation:
        """Of a data set or a job, by the names that plans have, or the first digits of a data set's digest id; no plan
        may be made meanwhile.

        Args:
          view: what a policy would be shown now.
          may_read: whether the caller may know of that data set; `owns`: of that job. Others are not there for them.

        Raises NotFoundError, InvalidArgumentError.
        """
        names = self._views.names
        for key in self._views.reading:
            self._finished.forget(key)
        self._finished.rename(self._views.called)
        datasets = [one for key, one in names.datasets.items() if may_read(key)]
        jobs = [one for (job, _), one in names.jobs.items() if owns(job)]
        full = [one for one in datasets if name in (one, one.rpartition(" (")[0])] or [
            one for one in jobs if one == name
        ]
        if not full and _DIGITS.fullmatch(name):
            full = [one for one in datasets if digits_of(one).startswith(name.lower())]
        if len(full) > 1:
            raise errors.InvalidArgumentError(
                f"name: {many(len(full), 'data set has', 'data sets have')} that name: say the digits of its digest "
                f"instead, one of {_some(list(map(digits_of, full)))}"
            )
        several = sorted(one for (job, _), one in names.jobs.items() if job == name and owns(job))
        if not full and several:
            raise errors.InvalidArgumentError(
                f"name: job {shortened(name)} reads {many(len(several), 'data set')}, and of each something else is "
                f"decided: say one of {_some(list(map(repr, several)))}"
            )
        if not full:
            return self._shown(self._explain_finished(name, owns, [*jobs, *datasets]), datasets, jobs)
        idle = {one for reads, one in names.jobs.items() if reads not in self._views.read_now}
        made = await asyncio.to_thread(explain, self.planner, view, full[0], now, idle)
        theirs = {*datasets, *jobs}
        digest_of = {one: digest_id for digest_id, one in names.datasets.items()}
        digest_of |= {one: digest_id for (_, digest_id), one in names.jobs.items()}
        of_it = {
            one: reads
            for reads, one in names.jobs.items()
            if one in theirs and made.name in (one, names.datasets[reads[1]])
        }
        unix_s = self._unix_s()
        shown = {one: of_it[one] for one in sorted(of_it)[:MOST_JOBS]}
        untold = of_it.keys() - shown.keys()
        limits = self._limits(shown)
        reasons = fitting({key: why for key, why in made.reasons.items() if key in theirs and key not in untold})
        made = replace(
            made,
            reasons=reasons | {one: _with_limit(reasons.get(one, ""), its) for one, its in limits.items()},
            limits=limits,
            probes={one: self._probes.told(*reads, unix_s) for one, reads in shown.items()},
            resident=self._resident(digest_of[made.name]),
            steps={one: asdict(steps) for one, reads in shown.items() if (steps := self._probes.steps(*reads))},
            more_jobs=len(untold),
            **self._idle(of_it[made.name]) if made.kind == "job" and made.name in idle else {},
        )
        return self._shown(made, datasets, jobs)

    # Inside.

    def _shown(self, made: Explanation, datasets: Collection[str], jobs: Collection[str]) -> Explanation:
        """To somebody who may see these and no others."""
        names = self._views.names
        others = set(names.datasets.values()) - set(datasets)
        return without_others(made, datasets, others) if others or len(jobs) < len(names.jobs) else made

    def _limits(self, shown: Mapping[str, Reads]) -> dict[str, dict[str, Any]]:
        """A job has one limit, whatever it reads: what plans show of one data set is a part of it."""
        reads = Counter(job for job, _ in self._views.names.jobs)
        return {
            one: {"bytes_per_s": limit, "datasets": reads[job]}
            for one, (job, _) in shown.items()
            if reads[job] > 1 and (limit := self._views.limit(job)) is not None
        }

    def _idle(self, reads: tuple[str, bytes]) -> dict[str, Any]:
        """Fields of an Explanation. It may be between two epochs, or have ended: nobody knows for half a minute."""
        newest = max((one for one in self._sessions if one.reads == reads), key=lambda one: one.number, default=None)
        far: dict[str, Any] = {"ago_s": self._clock.now() - self._views.reading.get(reads, self._clock.now())}
        if newest:
            far |= {"epoch": newest.epoch, "whole": newest.complete}
            far |= {"acked": newest.acked_shards, "shards": newest.shards}
        _, measured = self._probes.last(*reads)
        return {"idle": far, "now": at_last(measured) if measured else None}

    def _resident(self, digest_id: bytes) -> dict[str, Any] | None:
        share = self._caching.share(digest_id)
        return asdict(share) if share else None

    def _explain_finished(self, name: str, owns: Callable[[str], bool], live: Sequence[str]) -> Explanation:
        """Raises NotFoundError naming what there is: `live`, and who has finished."""
        if job := self._finished.find(name, owns):
            history = told(self.planner.history.of(job.dataset, job.name))
            return explain_finished(job, self._finished.ago_s(job), self.planner.policy_name, history)
        known = list(dict.fromkeys([*live, *(one.name for one in self._finished.all(owns))]))
        there = f"known are {_some(list(map(shortened, known)))}" if known else "nobody reads"
        raise errors.NotFoundError(
            f"name: {shortened(name)}: no job of that name reads now, or is of the last {finished_jobs.MOST_JOBS} that "
            "ended within an hour, and no data set of that name is read or pinned: nothing is decided about it; "
            f"{there}"
        )

    def _remember(self, key: tuple[str, bytes], seen_at: float, newest: Session | None) -> None:
        job, digest_id = key
        names, (totals, measured) = self._views.names, self._probes.last(*key)
        setting = self._caching.placement.setting(digest_id)
        dataset = names.datasets.get(digest_id) or self._views.names_of([digest_id]).datasets[digest_id]
        size_bytes = self._views.size_bytes(digest_id) or setting.allocation_bytes
        self._finished.remember(key, FinishedJob(
            names.jobs.get(key, job), job, dataset, seen_at, allocation_of(setting, size_bytes), totals, measured,
            *((newest.epoch, newest.acked_shards, newest.shards, newest.complete) if newest else ()),
        ))  # fmt: skip


def _with_limit(reason: str, limit: Mapping[str, Any]) -> str:
    rate, datasets = of_rate(limit["bytes_per_s"]), many(limit["datasets"], "data set")
    said = (
        f"its limit of the store, {rate}, is for its {datasets} together: of this one a part is told, and "
        "what one leaves unused the others have"
    )
    return f"{reason}; {said}" if reason else said


def _some(names: Sequence[str]) -> str:
    """Of ten thousand an error would be longer than one may be, or of twenty in letters of three bytes."""
    at_most = names[:_MOST_NAMED]
    ends = itertools.accumulate(len(name.encode()) for name in at_most)
    told = [name for name, end in zip(at_most, ends, strict=True) if end <= _MOST_NAMED_BYTES]
    more = f" and {len(names) - len(told)} more" if len(names) > len(told) else ""
    return f"{', '.join(told)}{more}"
