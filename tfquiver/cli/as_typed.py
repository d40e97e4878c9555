"""Fields of protocols in errors, called by what a person has typed for them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Of requests and of what a coordinator makes of them -> the argument's `dest`, of whichever command has it.
_FIELDS = {
    "allocation": "setting",
    "bytes_per_s": "rate",
    "candidates": "candidates",
    "credentials": "credentials",
    "digest_id": "digest",
    "format": "format",
    "job": "job",
    "name": "name",
    "names": "names",
    "policy": "policy",
    "rack_local": "rack_local",
    "replicas": "replicas",
    "selector": "nodes",
    "setting": "setting",
    "setting.allocation_bytes": "setting",
    "setting.chunks": "chunks",
    "setting.mode": "setting",
    "setting.partitions": "partitions",
    "setting.rotation": "rotation",
    "sources": "source",
    "stripe": "stripe",
}
_BEGINS = re.compile(r"(?P<whom>(?:coordinator|node) \S+(?: at \S+)?: )?(?P<field>[a-z_]+(?:\.[a-z_]+)*)(?:\[\d+\])?: ")


def as_typed(said: str, shown: Mapping[str, str]) -> str:
    """`said`: an error's message; `shown`: of the command's arguments, by `dest`, how they are typed."""
    found = _BEGINS.match(said)
    if found is None or (dest := _FIELDS.get(found["field"], "")) not in shown:
        return said
    return f"{found['whom'] or ''}{shown[dest]}: {said[found.end() :]}"
