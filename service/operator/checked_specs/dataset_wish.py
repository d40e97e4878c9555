"""What a `Dataset` asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfquiver import errors
from tfquiver.service.operator.checked_specs.fields import Fields

MAX_SOURCES = 1000
FORMATS = ("tfrecord", "bytes")
MAX_NAME = 63  # of a data set that has a name
_CREDENTIALS = re.compile(r"(?:file:/.+|env:\w+|k8s:[a-z0-9][a-z0-9.-]*/[-._a-zA-Z0-9]+)?")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Rule:
    """On which nodes it is kept, as tfquiver's placement rules say it. None of them: on all."""

    selector: str = ""  # key=value,...
    stripe: int = 0
    rack_local: bool = False
    replicas: int = 0

    def is_as(self, other: Rule) -> bool:
        """Whether both come to the same."""
        return self._meaning() == other._meaning()

    def _meaning(self) -> tuple[object, ...]:
        labels = frozenset(filter(None, self.selector.split(",")))
        return labels, self.stripe, self.rack_local, max(1, self.replicas)


@dataclass(frozen=True, slots=True)
class DatasetWish:
    """`name`: as tfquiver knows it."""

    name: str
    sources: tuple[str, ...]
    format: str  # as in FORMATS
    credentials: str
    pin: bool
    prefetch: bool
    rule: Rule
    is_kept: bool  # the data set outlives its object


def name_of(namespace: str, name: str) -> str:
    """Of the data set: other namespaces have others. Raises InvalidArgumentError."""
    made = f"{namespace}.{name}"
    if len(made) > MAX_NAME:
        raise errors.InvalidArgumentError(f"metadata: {made} is longer than the {MAX_NAME} characters of a name")
    return made


def parse(namespace: str, name: str, spec: Any) -> DatasetWish:
    """Raises InvalidArgumentError naming the field."""
    fields = Fields(spec, "spec")
    sources = fields.texts("sources", MAX_SOURCES)
    if not sources:
        raise errors.InvalidArgumentError("spec.sources: name at least one URI, as gs://bucket/train-*")
    credentials = fields.text("credentials")
    if not _CREDENTIALS.fullmatch(credentials):
        raise errors.InvalidArgumentError(
            "spec.credentials: a reference, no secret: file:PATH, env:NAME or k8s:SECRET/KEY"
        )
    placement = fields.inner("placement")
    return DatasetWish(
        name=name_of(namespace, name),
        sources=sources,
        format=fields.one_of("format", FORMATS),
        credentials=credentials,
        pin=fields.flag("pin"),
        prefetch=fields.flag("prefetch"),
        rule=Rule(
            selector=_selector(placement.mapping("selector")),
            stripe=placement.number("stripe", 0, 0, 10_000),
            rack_local=placement.flag("rackLocal"),
            replicas=placement.number("replicas", 0, 0, 16),
        ),
        is_kept=fields.one_of("deletionPolicy", ("Delete", "Retain")) == "Retain",
    )


def is_kept(spec: Any) -> bool:
    """Whether it asks for its data set to outlive it, whatever else is in it."""
    return isinstance(spec, Mapping) and spec.get("deletionPolicy") == "Retain"


def _selector(labels: Mapping[str, Any]) -> str:
    for key, value in labels.items():
        if not all(isinstance(one, str) and _LABEL.fullmatch(one) for one in (key, value)):
            raise errors.InvalidArgumentError(f"spec.placement.selector: {key!r}: {value!r} is no label of a node")
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
