"""kube-scheduler's questions and the answers, as JSON (k8s.io/kube-scheduler/extender/v1). Pure.

Of an ExtenderArgs is read: the pod's metadata and its containers' environment, the machines' names and labels. The
machines come as `NodeNames`, where the scheduler's configuration says nodeCacheCapable, else as `Nodes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfquiver import errors

DATASET, PLACEMENT = "tfquiver.dev/dataset", "tfquiver.dev/placement"  # annotations of pods
JOB = "tfquiver.dev/training-job"  # a label of pods
REQUIRE = "Require"
ENVIRONMENT = "TFQUIVER_DATASET"
MOST_SCORE = 10  # MaxExtenderPriority
MAX_MACHINES = 10_000
_MAX_NAME = 253


@dataclass(frozen=True, slots=True)
class Question:
    """`dataset`: as tfquiver knows it; empty: the pod names none. `nodes`: as they came, None: only names did."""

    dataset: str
    job: str
    is_required: bool
    machines: Mapping[str, Mapping[str, str]]  # name -> labels; in the order they came
    nodes: Any


def question(body: Any) -> Question:
    """Raises InvalidArgumentError naming the field: it is no ExtenderArgs."""
    args = _object(body, "ExtenderArgs")
    if not isinstance(pod := args.get("Pod"), dict):
        raise errors.InvalidArgumentError("Pod: not an object")
    meta = _object(pod.get("metadata"), "Pod.metadata")
    annotations = _object(meta.get("annotations"), "Pod.metadata.annotations")
    labels = _object(meta.get("labels"), "Pod.metadata.labels")
    nodes = args.get("Nodes")
    return Question(
        dataset=_name(annotations.get(DATASET)) or _from_environment(pod),
        job=_name(labels.get(JOB)),
        is_required=annotations.get(PLACEMENT) == REQUIRE,
        machines=_named(args.get("NodeNames")) if nodes is None else _listed(nodes),
        nodes=nodes,
    )


def filtered(asked: Question, scores: Mapping[str, float]) -> dict[str, Any]:
    """ExtenderFilterResult. `scores`: 0 to 1; empty: nobody knows.

    Only a pod that requires it is kept from machines, and only while there are others that have some of its data.
    """
    failed = {}
    if asked.is_required and any(scores.get(name, 0) > 0 for name in asked.machines):
        failed = {name: f"holds nothing of {asked.dataset}" for name in asked.machines if scores.get(name, 0) <= 0}
    answer: dict[str, Any] = {"FailedNodes": failed, "Error": ""}
    if asked.nodes is None:
        return {**answer, "NodeNames": [name for name in asked.machines if name not in failed]}
    items = [one for one in asked.nodes.get("items") or [] if one["metadata"]["name"] not in failed]
    return {**answer, "Nodes": {**asked.nodes, "items": items}}


def prioritized(asked: Question, scores: Mapping[str, float]) -> list[dict[str, Any]]:
    """HostPriorityList: each machine's, 0 where nobody knows."""
    near = {name: min(1.0, max(0.0, scores.get(name, 0.0))) for name in asked.machines}
    return [{"Host": name, "Score": round(MOST_SCORE * score)} for name, score in near.items()]


def _from_environment(pod: Mapping[str, Any]) -> str:
    spec = _object(pod.get("spec"), "Pod.spec")
    for container in _list(spec.get("containers"), "Pod.spec.containers"):
        env = _object(container, "Pod.spec.containers[]").get("env")
        for variable in _list(env, "Pod.spec.containers[].env"):
            if _object(variable, "Pod.spec.containers[].env[]").get("name") == ENVIRONMENT:
                return _name(variable.get("value"))
    return ""


def _named(names: Any) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name in _list(names, "NodeNames"):
        if not _name(name):
            raise errors.InvalidArgumentError("NodeNames: an entry is no name")
        found[name] = {}
    return found


def _listed(nodes: Any) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for one in _list(_object(nodes, "Nodes").get("items"), "Nodes.items"):
        meta = _object(_object(one, "Nodes.items[]").get("metadata"), "Nodes.items[].metadata")
        if not (name := _name(meta.get("name"))):
            raise errors.InvalidArgumentError("Nodes.items[].metadata.name: missing")
        labels = _object(meta.get("labels"), "Nodes.items[].metadata.labels")
        found[name] = {key: value for key, value in labels.items() if _is_text(key) and _is_text(value)}
    return found


def _name(value: Any) -> str:
    return value if _is_text(value) and 0 < len(value) <= _MAX_NAME else ""


def _is_text(value: Any) -> bool:
    """JSON has strings, too, that no message to the coordinator can: with halves of surrogate pairs."""
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _object(value: Any, what: str) -> dict[str, Any]:
    """None, where it is left out, is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise errors.InvalidArgumentError(f"{what}: not an object")
    return value


def _list(value: Any, what: str) -> list[Any]:
    """As `_object`."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise errors.InvalidArgumentError(f"{what}: not a list")
    return value
