"""Whether the Job of a `TrainingJob` is to be made now, and what the object's status says. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfquiver.service.operator.checked_specs.job_wish import JobWish
from tfquiver.service.operator.conditions import Condition, merged
from tfquiver.service.operator.dataset_plan import Trouble

COMPLETE, FAILED = "Complete", "Failed"
INVALID, JOB_GONE = "InvalidSpec", "JobGone"


@dataclass(frozen=True, slots=True)
class Waiting:
    """`reason`: for programs."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ReadableDataset:
    """Of the status of a Dataset. `digest`: hexadecimal."""

    name: str
    digest: str


def readable(wish: JobWish, dataset: Mapping[str, Any] | None) -> ReadableDataset | Waiting:
    """`dataset`: the object that the job names; None: there is none."""
    if dataset is None:
        return Waiting("DatasetMissing", f"there is no Dataset {wish.dataset} in this namespace")
    status = dataset.get("status")
    status = status if isinstance(status, Mapping) else {}  # others may have written it
    there = status.get("conditions")
    given = [one for one in there if isinstance(one, Mapping)] if isinstance(there, list) else []
    conditions = {type: one for one in given if isinstance(type := one.get("type"), str)}
    for needed in ("Ready", "Resident") if wish.starts == "Resident" else ("Ready",):
        if (one := conditions.get(needed, {})).get("status") != "True":
            state = status.get("state") or "not looked at yet"
            more = f": {one['message']}" if one.get("message") else ""
            return Waiting(f"DatasetNot{needed}", f"Dataset {wish.dataset} is {state}{more}")
    name, digest = status.get("dataset"), status.get("digest")
    if not isinstance(name, str) or not isinstance(digest, str):
        return Waiting("DatasetNotReady", f"the status of Dataset {wish.dataset} does not say what it is")
    return ReadableDataset(name, digest)


def is_of(job: Mapping[str, Any], uid: str) -> bool:
    """Whether that Job was made for the TrainingJob with this uid."""
    owners = job.get("metadata", {}).get("ownerReferences") or []
    return any(owner.get("uid") == uid for owner in owners)


class Step(enum.Enum):
    DONE = "done"  # it has been over, and the status says so: nothing is looked at any more
    SHOW = "show"  # the Job is there
    GONE = "gone"  # it was, and somebody has deleted it: it is not run again
    MAKE = "make"


def step(before: Any, job: Mapping[str, Any] | None) -> Step:
    """Args:
    before: the status as it is.
    job: its Job, as Kubernetes has it now.
    """
    was = before if isinstance(before, dict) else {}
    if was.get("state") in (COMPLETE, FAILED):
        return Step.DONE
    if job is not None:
        return Step.SHOW
    return Step.GONE if was.get("job") else Step.MAKE


def status(
    job: Mapping[str, Any] | None,
    why_not: Waiting | Trouble | None,
    before: Any,
    generation: int,
    at: str,
) -> dict[str, Any]:
    """For the object; None in it: that field goes.

    Args:
      job: its own, as Kubernetes has it; None: there is none (any more).
      why_not: there is none.
      at: the time, RFC 3339.
    """
    were = before if isinstance(before, dict) else {}
    its = (job or {}).get("status") or {}
    state, conditions = _of_job(its) if job is not None else _without_job(why_not)
    return {
        "observedGeneration": generation,
        "state": state,
        "message": next((one.message for one in conditions if one.message), ""),
        "job": job["metadata"]["name"] if job is not None else were.get("job"),
        **{name: its.get(name) or 0 for name in ("active", "succeeded", "failed")},
        "conditions": merged(were.get("conditions"), conditions, generation, at),
    }


def _without_job(why_not: Waiting | Trouble | None) -> tuple[str, list[Condition]]:
    reason, message = (why_not.reason, why_not.message) if why_not else ("JobIsMade", "")
    is_gone = reason == JOB_GONE
    state = FAILED if is_gone else "Invalid" if reason == INVALID else "Waiting"
    return state, [
        Condition("Started", is_gone, reason, message),
        Condition("Complete", False, reason),
        Condition("Failed", is_gone, reason),
    ]


def _of_job(its: Mapping[str, Any]) -> tuple[str, list[Condition]]:
    over = {one.get("type"): one for one in its.get("conditions") or [] if one.get("status") == "True"}
    started = Condition("Started", True, "JobMade")
    if one := over.get("Complete"):
        done = Condition("Complete", True, "JobComplete", str(one.get("message") or ""))
        return COMPLETE, [started, done, Condition("Failed", False, "JobComplete")]
    if one := over.get("Failed"):
        broken = Condition("Failed", True, str(one.get("reason") or "JobFailed"), str(one.get("message") or ""))
        return FAILED, [started, Condition("Complete", False, "JobFailed"), broken]
    state = "Running" if its.get("active") else "Starting"
    return state, [started, Condition("Complete", False, state), Condition("Failed", False, state)]
