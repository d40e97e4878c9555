"""Labels of nodes, as `rack=r1,disk=nvme`: what a node says of where it stands and what it is. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfquiver import errors
from tfquiver.plain_text import shortened

MAX_LABELS = 16
MAX_BYTES = 63
RACK = "rack"  # of this one nodes are near each other
LIFECYCLE, SPOT = "lifecycle", "spot"
KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")
VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def parse(text: str) -> dict[str, str]:
    """Of `key=value,key=value`. Raises InvalidArgumentError naming the part that is wrong."""
    found: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            raise errors.InvalidArgumentError(f"labels: {shortened(part)} is not key=value")
        if key in found:
            raise errors.InvalidArgumentError(f"labels: {shortened(key)} is said twice")
        found[key] = value
    check(found)
    return found


def is_spot(labels: Mapping[str, str]) -> bool:
    """Its machine may be taken away at any time: that it is gone is noted, and is nothing to look after."""
    return labels.get(LIFECYCLE) == SPOT


def of_machine(labels: Mapping[str, str]) -> dict[str, str]:
    """What placement heeds of them. Machines of Kubernetes have dozens, of which some would be none of a node."""
    rack = labels.get(RACK, "")
    return {RACK: rack} if rack and VALUE.fullmatch(rack) else {}


def check(labels: Mapping[str, str]) -> None:
    """Raises InvalidArgumentError naming the label."""
    if len(labels) > MAX_LABELS:
        raise errors.InvalidArgumentError(f"labels: {len(labels)}; a node has {MAX_LABELS} at most")
    for key, value in labels.items():
        if not KEY.fullmatch(key):
            raise errors.InvalidArgumentError(
                f"labels: {shortened(key)} is no key: letters, digits and . _ / - between, {MAX_BYTES} at most"
            )
        if not VALUE.fullmatch(value):
            raise errors.InvalidArgumentError(
                f"labels: {shortened(value)} is no value of {key}: letters, digits, . _ - between, {MAX_BYTES} at most"
            )
