"""What was decided, when, why, and what was refused: a decision, and as a record for the commit log. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, get_args

from tfquiver import errors
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, Mode

_MOST_S = 1e11  # a date that people can be told; and what is no number is none

Kind = Literal["dataset", "job", "plan", "policy"]
# Of a data set its allocation, of a job the store's bytes/s (None: not limited), of the policy its name.
Value = Allocation | float | str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """`measurement` is the policy's reason, `rule` the planner's; `refused` says what was not done instead.
    `evicted_bytes`: of a data set, what goes of what jobs read; None: of no data set, or an earlier version said it."""

    at_s: float
    kind: Kind
    name: str
    was: Value
    becomes: Value
    measurement: str = ""
    rule: str = ""
    refused: str = ""
    evicted_bytes: int | None = None

    def to_record(self) -> dict[str, Any]:
        goes = {} if self.evicted_bytes is None else {"evicted_bytes": self.evicted_bytes}
        return {
            "at_s": self.at_s,
            "kind": self.kind,
            "name": self.name,
            "was": _encoded(self.was),
            "becomes": _encoded(self.becomes),
            "measurement": self.measurement,
            "rule": self.rule,
            "refused": self.refused,
            **goes,
        }

    @property
    def text_bytes(self) -> int:
        """Of its texts, as JSON in a record."""
        return sum(_json_bytes(text) for text in (self.name, self.measurement, self.rule, self.refused))

    def cut(self, most: int) -> Decision:
        """With so many characters of each text that a policy has written."""
        return replace(self, measurement=_cut(self.measurement, most), refused=_cut(self.refused, most))

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Decision:
        """Raises DataLossError naming the field that cannot be right. What a later version added is passed over."""
        kind: Any = record.get("kind")
        if kind not in get_args(Kind):
            raise errors.DataLossError(f"decision.kind: {kind!r} is none of {', '.join(get_args(Kind))}")
        at_s = record.get("at_s")
        if not isinstance(at_s, int | float) or isinstance(at_s, bool) or not 0 <= at_s < _MOST_S:
            raise errors.DataLossError(f"decision.at_s: {at_s!r} is no time")
        texts = {key: record.get(key, "") for key in ("name", "measurement", "rule", "refused")}
        for key, text in texts.items():
            if not isinstance(text, str):
                raise errors.DataLossError(f"decision.{key}: {text!r} is no text")
        values = {key: _decoded(f"decision.{key}", record.get(key)) for key in ("was", "becomes")}
        evicted_bytes = record.get("evicted_bytes")
        if evicted_bytes is not None and not _is_size(evicted_bytes):
            raise errors.DataLossError(f"decision.evicted_bytes: {evicted_bytes!r} are no bytes")
        name = texts.pop("name")
        return Decision(
            float(at_s), kind, name, values["was"], values["becomes"], **texts, evicted_bytes=evicted_bytes
        )  # fmt: skip


def _json_bytes(text: str) -> int:
    return len(text) if text.isascii() and text.isprintable() else len(json.dumps(text))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _encoded(value: Value) -> Any:
    if isinstance(value, Allocation):
        return {"mode": value.mode, "cache_bytes": value.cache_bytes}
    return value


def _decoded(field: str, value: object) -> Value:
    if value is None or isinstance(value, str):
        return value
    # Of what is no number JSON that others read has none.
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < inf:
        return value
    if isinstance(value, Mapping):
        mode: Any = value.get("mode")
        cache_bytes = value.get("cache_bytes")
        if mode in get_args(Mode) and isinstance(cache_bytes, int) and not isinstance(cache_bytes, bool):
            return Allocation(mode, cache_bytes)
    raise errors.DataLossError(f"{field}: {value!r} is neither an allocation, a rate, a name nor nothing")
