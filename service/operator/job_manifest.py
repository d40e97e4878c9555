"""The Job of a `TrainingJob`: a person's pods, near their data, with what reading through a node takes. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfquiver.service.operator.checked_specs.job_wish import JobWish

GROUP = "tfquiver.dev"
VERSION = "v1alpha1"
JOB_LABEL = f"{GROUP}/training-job"
CLIENT_LABEL = f"{GROUP}/client"
TOKEN_DIRECTORY = "/etc/tfquiver/token"
HOSTNAME = "kubernetes.io/hostname"
_CACHE, _TOKEN = "tfquiver-cache", "tfquiver-token"
_MOST_NODES = 20  # in an affinity: what is far down the list helps nobody
_HIGHEST_WEIGHT = 100


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is the same for all jobs of a cluster. `service`: the coordinator's address, as pods reach it."""

    service: str
    reader_group: int


@dataclass(frozen=True, slots=True)
class NodeScore:
    """How much of the data set a job on that machine would find near: 0 to 1."""

    node: str
    score: float


def of(
    wish: JobWish,
    meta: Mapping[str, Any],
    dataset_name: str,
    around: Surroundings,
    scores: Sequence[NodeScore],
) -> dict[str, Any]:
    """Args:
    meta: the TrainingJob's metadata; its Job goes with it.
    dataset_name: as tfquiver knows it.
    scores: best first.
    """
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "TrainingJob",
        "name": wish.name,
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    spec: dict[str, Any] = {
        "completions": wish.workers,
        "parallelism": wish.workers,
        "completionMode": "Indexed",
        "backoffLimit": wish.backoff_limit,
        "template": _template(wish, dataset_name, around, scores),
    }
    if wish.deadline_s is not None:
        spec["activeDeadlineSeconds"] = wish.deadline_s
    labels = {JOB_LABEL: wish.name, "app.kubernetes.io/managed-by": "tfquiver-operator"}
    made = {"name": wish.name, "namespace": meta["namespace"], "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": made, "spec": spec}


def _template(wish: JobWish, dataset_name: str, around: Surroundings, scores: Sequence[NodeScore]) -> dict[str, Any]:
    template = copy.deepcopy(wish.template)
    meta = template.setdefault("metadata", {})
    meta["labels"] = {**meta.get("labels", {}), JOB_LABEL: wish.name, CLIENT_LABEL: "true"}
    # For the scheduler extender, where there is one.
    near = {f"{GROUP}/dataset": dataset_name, f"{GROUP}/placement": wish.placement}
    meta["annotations"] = {**meta.get("annotations", {}), **near}
    pod = template["spec"]
    pod.setdefault("restartPolicy", "Never")
    _join_readers(pod, around.reader_group)
    volumes = [{"name": _CACHE, "hostPath": {"path": wish.cache_directory, "type": "Directory"}}]
    mounts = [{"name": _CACHE, "mountPath": wish.cache_directory, "readOnly": True}]
    env = {
        "TFQUIVER_SERVICE": around.service,
        "TFQUIVER_CACHE_DIR": wish.cache_directory,
        "TFQUIVER_DATASET": dataset_name,
        "TFQUIVER_JOB": wish.name,
    }
    if wish.token_secret:
        secret = {
            "secretName": wish.token_secret,
            "defaultMode": 0o440,
            "items": [{"key": wish.token_key, "path": "token"}],
        }
        volumes.append({"name": _TOKEN, "secret": secret})
        mounts.append({"name": _TOKEN, "mountPath": TOKEN_DIRECTORY, "readOnly": True})
        env["TFQUIVER_AUTH_TOKEN_FILE"] = f"{TOKEN_DIRECTORY}/token"
        pod["securityContext"].setdefault("fsGroup", around.reader_group)
    _add(pod, "volumes", volumes, "name")
    for container in pod["containers"]:
        _add(container, "volumeMounts", mounts, "mountPath")
        _add(container, "env", [{"name": name, "value": value} for name, value in env.items()], "name")
    _near_its_data(pod, wish.placement, scores)
    return template


def _join_readers(pod: dict[str, Any], group: int) -> None:
    context = pod.setdefault("securityContext", {})
    groups = context.get("supplementalGroups", [])
    context["supplementalGroups"] = groups if group in groups else [*groups, group]


def _add(to: dict[str, Any], name: str, more: Sequence[dict[str, Any]], key: str) -> None:
    """Those whose `key` is not there: what a person wrote stays."""
    there = list(to.get(name) or [])
    known = {one.get(key) for one in there}
    to[name] = there + [copy.deepcopy(one) for one in more if one[key] not in known]


def _near_its_data(pod: dict[str, Any], placement: str, scores: Sequence[NodeScore]) -> None:
    near = [one for one in scores if one.score > 0][:_MOST_NODES]
    if placement == "Any" or not near:
        return
    affinity = pod.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    if placement == "Prefer":
        name = "preferredDuringSchedulingIgnoredDuringExecution"
        affinity[name] = [*(affinity.get(name) or []), *map(_preference, near)]
        return
    here = {"key": HOSTNAME, "operator": "In", "values": sorted(one.node for one in near)}
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    # Terms are alternatives: each must name the machines.
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or []), here]} for term in terms
    ]


def _preference(one: NodeScore) -> dict[str, Any]:
    weight = max(1, min(_HIGHEST_WEIGHT, round(_HIGHEST_WEIGHT * one.score)))
    here = {"key": HOSTNAME, "operator": "In", "values": [one.node]}
    return {"weight": weight, "preference": {"matchExpressions": [here]}}
