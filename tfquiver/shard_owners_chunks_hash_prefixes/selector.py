"""Which nodes are meant: `rack=r1,disk!=hdd,zone in (a,b),gpu`. Pure.

Kubernetes' label selectors, as far as they go: parts between commas must all hold. `key=value`; `key!=value`, also
where a node has no such label; `key in (a,b)`; `key`: it has one. Empty: all nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.shard_owners_chunks_hash_prefixes import labels

MAX_BYTES = 1024
MAX_PARTS = 32
MAX_VALUES = 64
SYNTAX = "key=value, key!=value, key in (a,b) or key"
_COMMA = re.compile(r",(?![^()]*\))")  # not within brackets
_IN = re.compile(r"(\S+)\s+in\s*\((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """`values`: None: whatever it is. `present`: it is one of these; else it is not, or there is none."""

    key: str
    values: frozenset[str] | None
    present: bool = True

    def matches(self, its_labels: Mapping[str, str]) -> bool:
        found = its_labels.get(self.key)
        if self.values is None:
            return found is not None
        return (found in self.values) is self.present


@dataclass(frozen=True, slots=True)
class Selector:
    parts: tuple[Part, ...] = ()

    @staticmethod
    def parse(text: str) -> Selector:
        """Raises InvalidArgumentError naming the part that is wrong."""
        if len(text.encode()) > MAX_BYTES:
            raise errors.InvalidArgumentError(f"selector: longer than {MAX_BYTES} bytes")
        if not text.strip():
            return Selector()
        parts = _COMMA.split(text)
        if len(parts) > MAX_PARTS:
            raise errors.InvalidArgumentError(f"selector: {len(parts)} parts; there may be {MAX_PARTS}")
        return Selector(tuple(_part(part.strip()) for part in parts))

    def matches(self, its_labels: Mapping[str, str]) -> bool:
        return all(part.matches(its_labels) for part in self.parts)


def _part(text: str) -> Part:
    if match := _IN.fullmatch(text):
        values = [value.strip() for value in match[2].split(",")]
        if len(values) > MAX_VALUES:
            raise errors.InvalidArgumentError(f"selector: {len(values)} values of {shortened(match[1])}")
        return Part(_key(match[1], text), frozenset(_value(value, text) for value in values))
    key, unequal, value = text.partition("!=")
    if unequal:
        return Part(_key(key.strip(), text), frozenset((_value(value.strip(), text),)), present=False)
    key, equals, value = text.partition("=")
    if equals:
        return Part(_key(key.strip(), text), frozenset((_value(value.removeprefix("=").strip(), text),)))
    return Part(_key(text, text), None)


def _key(key: str, part: str) -> str:
    if not labels.KEY.fullmatch(key):
        raise errors.InvalidArgumentError(f"selector: {shortened(part)} is not {SYNTAX}")
    return key


def _value(value: str, part: str) -> str:
    if not labels.VALUE.fullmatch(value):
        raise errors.InvalidArgumentError(f"selector: {shortened(part)}: {shortened(value)} is no value of a label")
    return value
