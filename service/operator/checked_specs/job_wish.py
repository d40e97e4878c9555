"""What a `TrainingJob` asks for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfquiver import errors
from tfquiver.service.operator.checked_specs.fields import Fields

MAX_NAME = 52  # its pods have longer ones, which are labels of at most 63
_YEAR_S = 366 * 86400


@dataclass(frozen=True, slots=True)
class JobWish:
    """`template`: of its pods, as a person wrote it. `starts`: when its data set is Ready, or Resident."""

    name: str
    dataset: str
    starts: str
    placement: str
    workers: int
    template: dict[str, Any]
    cache_directory: str
    token_secret: str
    token_key: str
    backoff_limit: int
    ttl_s: int | None
    deadline_s: int | None


def parse(name: str, spec: Any) -> JobWish:
    """Raises InvalidArgumentError naming the field."""
    if len(name) > MAX_NAME:
        raise errors.InvalidArgumentError(f"metadata.name: {name} is longer than {MAX_NAME} characters")
    fields = Fields(spec, "spec")
    dataset = fields.text("dataset", most=253)
    if not dataset:
        raise errors.InvalidArgumentError("spec.dataset: name a Dataset of this namespace")
    template = fields.mapping("template")
    _check_pod(template)
    cache_directory = fields.text("cacheDirectory", "/var/cache/tfquiver")
    if not cache_directory.startswith("/"):
        raise errors.InvalidArgumentError(f"spec.cacheDirectory: {cache_directory!r} is not an absolute path")
    token = fields.inner("tokenSecret")
    return JobWish(
        name=name,
        dataset=dataset,
        starts=fields.one_of("startWhen", ("Ready", "Resident")),
        placement=fields.one_of("placement", ("Prefer", "Require", "Any")),
        workers=fields.number("workers", 1, 1, 10_000),
        template=template,
        cache_directory=cache_directory,
        token_secret=token.text("name", most=253),
        token_key=token.text("key", "token", most=253),
        backoff_limit=fields.number("backoffLimit", 6, 0, 1000),
        ttl_s=fields.optional_number("ttlSecondsAfterFinished", 0, _YEAR_S),
        deadline_s=fields.optional_number("activeDeadlineSeconds", 1, _YEAR_S),
    )


def _check_pod(template: dict[str, Any]) -> None:
    """Only what is added to; the rest is for Kubernetes to judge."""
    fields = Fields(template, "spec.template")
    for name in ("labels", "annotations"):
        fields.inner("metadata").mapping(name)
    pod = fields.inner("spec")
    containers = pod.mappings("containers")
    if not containers:
        raise errors.InvalidArgumentError("spec.template.spec.containers: name at least one container")
    pod.mappings("volumes")
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(pod.mappings(kind)):
            inside = Fields(container, f"spec.template.spec.{kind}[{number}]")
            inside.mappings("env")
            inside.mappings("volumeMounts")
    if not isinstance(pod.mapping("securityContext").get("supplementalGroups", []), list):
        raise errors.InvalidArgumentError("spec.template.spec.securityContext.supplementalGroups: is not a list")
    affinity = pod.inner("affinity").inner("nodeAffinity")
    affinity.mappings("preferredDuringSchedulingIgnoredDuringExecution")
    affinity.inner("requiredDuringSchedulingIgnoredDuringExecution").mappings("nodeSelectorTerms")
