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
    "scheduler": "scheduler",
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
# What follows speaks of a data set or a job by its name: the field in front of it would say nothing.
_SPOKEN_OF = ("digest_id", "job", "name")
_ADDRESS = r"(?:unix:.+?\.sock|\S+)"  # in a directory that may have spaces in its name
_BEGINS = re.compile(
    rf"(?P<whom>(?:coordinator|node) {_ADDRESS}(?: at {_ADDRESS})?: )?(?P<field>[a-z_]+(?:\.[a-z_]+)*)(?:\[\d+\])?: "
)


def as_typed(said: str, shown: Mapping[str, str]) -> str:
    """`said`: an error's message; `shown`: of the command's arguments, by `dest`, how they are typed."""
    found = _BEGINS.match(said)
    if found is None:
        return said
    whom, rest = found["whom"] or "", said[found.end() :]
    typed = shown.get(_FIELDS.get(found["field"], ""), "")
    if found["field"] in _SPOKEN_OF and not typed.startswith("-"):
        return f"{whom}{rest}"
    return f"{whom}{typed}: {rest}" if typed else said
