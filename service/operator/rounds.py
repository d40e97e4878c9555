"""One look at one object, and what comes of it: asked, decided, carried out, the new status given back.

`reconciling` decides.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.logs import about
from tfquiver.service.operator import dataset_plan, job_manifest, job_plan
from tfquiver.service.operator.checked_specs import dataset_wish, job_wish
from tfquiver.service.operator.checked_specs.dataset_wish import Rule
from tfquiver.service.operator.coordinator_calls import CoordinatorCalls, is_final
from tfquiver.service.operator.dataset_plan import Action, Observed, Trouble
from tfquiver.service.operator.job_manifest import GROUP, VERSION, NodeScore, Surroundings
from tfquiver.service.operator.job_plan import ReadableDataset, Step, Waiting
from tfquiver.service.operator.kubernetes_calls import KubernetesCalls
from tfquiver.service.operator.resident_asked import ResidentAsked

CACHE_LABEL = f"{GROUP}/cache"  # of machines on which a node runs (configs/kubernetes)
_MOST_FORGOTTEN = 100_000
Status = dict[str, Any]


class Rounds:
    """Each round is whole in itself: whatever was lost before it, it finds out again."""

    def __init__(self, coordinator: CoordinatorCalls, kubernetes: KubernetesCalls, around: Surroundings) -> None:
        self._coordinator, self._kubernetes, self._around = coordinator, kubernetes, around
        self._resident = ResidentAsked()
        self._forgotten: dict[str, None] = {}  # uids of TrainingJobs that are over, with nothing left to be done

    async def dataset(self, meta: Mapping[str, Any], spec: Any, before: Any) -> Status:
        """The status of a Dataset."""
        generation, at = int(meta.get("generation") or 0), _now()
        try:
            wish = dataset_wish.parse(meta["namespace"], meta["name"], spec)
        except errors.InvalidArgumentError as error:
            invalid = Trouble(job_plan.INVALID, str(error))
            return dataset_plan.status(None, None, invalid, before, generation, at)
        prefetched = _prefetched(before)
        observed: Observed | None = None
        trouble: Trouble | None = None
        try:
            observed = await self._observed(meta["uid"], wish.name)
            if observed is None or observed.version < prefetched:
                prefetched = 0  # of one that is no more
            for action in dataset_plan.actions(wish, observed, prefetched):
                if action is Action.PLACE and observed is not None and observed.rule != Rule():
                    others = await self._coordinator.of_same_content(wish.name, observed.digest_id)
                    if others:
                        trouble = dataset_plan.placed_otherwise(wish, observed, others)
                        continue
                asked = observed.version if action is Action.PREFETCH and observed is not None else prefetched
                try:
                    await self._coordinator.carry_out(action, wish, observed.digest_id if observed else "")
                except errors.ResourceExhaustedError:
                    prefetched = asked  # of what did not fit nothing is asked again
                    raise
                prefetched = asked
                logging.info("dataset %s: %s", wish.name, action.value, extra=about(dataset=wish.name))
                observed = await self._observed(meta["uid"], wish.name)
        except errors.TfquiverError as error:
            trouble = _trouble(error, leaves_readable=observed is not None)
        return dataset_plan.status(wish, observed, trouble, before, generation, at, prefetched)

    async def _observed(self, uid: str, name: str) -> Observed | None:
        """How much of it nodes hold is asked for as often as it is worth."""
        began_s = time.monotonic()
        if not self._resident.is_due(uid, began_s):
            observed = await self._coordinator.dataset(name, resident=False)
            if observed is None or (known := self._resident.of(uid, _state(observed))) is not None:
                return observed and replace(observed, resident_bytes=known)
        observed = await self._coordinator.dataset(name, resident=True)
        if observed is not None:
            now_s = time.monotonic()
            self._resident.told(uid, _state(observed), observed.resident_bytes, now_s, now_s - began_s)
        return observed

    async def dataset_goes(self, meta: Mapping[str, Any], spec: Any, before: Any) -> None:
        """A Dataset is being deleted. Raises the typed error when its data set cannot go (yet)."""
        if dataset_wish.is_kept(spec):
            return
        try:
            wish = dataset_wish.parse(meta["namespace"], meta["name"], spec)
        except errors.InvalidArgumentError:  # it may have been valid before; of a longer name than one has it never was
            if (name := f"{meta['namespace']}.{meta['name']}") == dataset_plan.own_name(before):
                await self._coordinator.delete(name)
            return
        # It may have been made a moment ago, and no status say so.
        observed = await self._coordinator.dataset(wish.name, resident=False)
        if dataset_plan.is_own(wish, observed, before):
            await self._coordinator.delete(wish.name)

    async def job(self, meta: Mapping[str, Any], spec: Any, before: Any) -> Status | None:
        """The status of a TrainingJob; None: as it is."""
        generation, at = int(meta.get("generation") or 0), _now()
        if job_plan.step(before, None) is Step.DONE:
            await self._forget(meta, spec)
            return None
        why_not: Waiting | Trouble | None = None
        job = None
        try:
            job = await self._kubernetes.job(meta["namespace"], meta["name"])
            if job is not None and not job_plan.is_of(job, meta["uid"]):
                taken = f"a Job {meta['name']} is there already, and is not of this TrainingJob"
                return job_plan.status(None, Waiting("NameTaken", taken), before, generation, at)
            match job_plan.step(before, job):
                case Step.GONE:
                    why_not = Waiting(
                        job_plan.JOB_GONE, "its Job was deleted; make another TrainingJob to run it again"
                    )
                case Step.MAKE:
                    job, why_not = await self._made(meta, spec)
        except errors.InvalidArgumentError as error:
            why_not = Trouble(job_plan.INVALID, str(error))
        except errors.TfquiverError as error:
            why_not = _trouble(error)
        return job_plan.status(job, why_not, before, generation, at)

    async def _made(self, meta: Mapping[str, Any], spec: Any) -> tuple[dict[str, Any] | None, Waiting | None]:
        wish = job_wish.parse(meta["name"], spec)
        namespace = meta["namespace"]
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/datasets/{wish.dataset}"
        found = job_plan.readable(wish, await self._kubernetes.get(path))
        if isinstance(found, Waiting):
            return None, found
        manifest = job_manifest.of(wish, meta, found.name, self._around, await self._scores(wish, found))
        await self._kubernetes.make_job(namespace, manifest)  # one that is there already is looked at in the next line
        job = await self._kubernetes.job(namespace, wish.name)
        if job is not None and not job_plan.is_of(job, meta["uid"]):
            return None, Waiting("NameTaken", f"a Job {wish.name} is there already")
        return job, None

    async def _scores(self, wish: job_wish.JobWish, found: ReadableDataset) -> list[NodeScore]:
        """A job is started without them, too: somewhere is better than not at all."""
        if wish.placement == "Any":
            return []
        try:
            machines = await self._kubernetes.machines(f"{CACHE_LABEL}=true")
            return await self._coordinator.scores(wish.name, found.digest, machines) if machines else []
        except errors.TfquiverError as error:
            logging.warning("job %s is not placed near its data: %s", wish.name, error, extra=about(job=wish.name))
            return []

    async def _forget(self, meta: Mapping[str, Any], spec: Any) -> None:
        """Only now that the status says how it ended may its Job go: it would be taken for one that never was."""
        # Until their specs change: else each of all that have ever been run is asked for again and again.
        once = f"{meta['uid']} {meta.get('generation')}"
        if once in self._forgotten:
            return
        try:
            wish = job_wish.parse(meta["name"], spec)
            if wish.ttl_s is None:
                return
            job = await self._kubernetes.job(meta["namespace"], meta["name"])
            if job and job_plan.is_of(job, meta["uid"]) and job["spec"].get("ttlSecondsAfterFinished") != wish.ttl_s:
                await self._kubernetes.forget_job_after(meta["namespace"], meta["name"], wish.ttl_s)
            if len(self._forgotten) >= _MOST_FORGOTTEN:
                del self._forgotten[next(iter(self._forgotten))]
            self._forgotten[once] = None
        except errors.TfquiverError as error:
            logging.warning("job %s: %s", meta["name"], error, extra=about(job=meta["name"]))


def _state(observed: Observed) -> tuple[str, str, Rule]:
    """When this is another, so may be what nodes hold."""
    return observed.state, observed.digest_id, observed.rule


def _trouble(error: errors.TfquiverError, leaves_readable: bool = False) -> Trouble:
    reason = "Refused" if is_final(error) else type(error).__name__.rstrip("_").removesuffix("Error")
    return Trouble(reason, str(error), is_final(error), leaves_readable)


def _prefetched(before: Any) -> int:
    value = before.get("prefetchedVersion") if isinstance(before, Mapping) else None
    return value if isinstance(value, int) else 0


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
