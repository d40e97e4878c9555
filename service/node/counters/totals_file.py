"""What a cache directory has saved so far: counters that outlive the nodes that ran in it, in `totals.json`.

A node that is killed loses what it counted since it last wrote them down; nothing else depends on them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tfquiver import durable

TOTALS_FILE = "totals.json"
_MOST = (1 << 64) - 1
_MOST_BYTES = 4096
_BEGINNINGS = ("since_s", "written_since_s")
_LATER = ("written_bytes", "written_since_s")  # older files lack them


@dataclass(frozen=True, slots=True)
class Totals:
    """As node.proto's message of that name."""

    since_s: int = 0
    served_bytes: int = 0
    hits: int = 0
    misses: int = 0
    store_bytes: int = 0
    store_requests: int = 0
    written_bytes: int = 0
    written_since_s: int = 0

    def plus(self, later: Totals) -> Totals:
        mine, its = asdict(self), asdict(later)
        added = {name: min(mine[name] + its[name], _MOST) for name in mine if name not in _BEGINNINGS}
        return Totals(**added, **{name: mine[name] or its[name] for name in _BEGINNINGS})


def read(directory: Path) -> Totals:
    """None yet where the file is not there, or says nothing that could be right."""
    try:
        fields = json.loads(durable.read(directory / TOTALS_FILE, _MOST_BYTES))
        values = {name: int(fields[name] if name not in _LATER else fields.get(name, 0)) for name in asdict(Totals())}
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Totals()
    return Totals(**values) if all(0 <= value <= _MOST for value in values.values()) else Totals()


def write(directory: Path, totals: Totals) -> None:
    """Raises OSError."""
    durable.write(directory / TOTALS_FILE, [json.dumps(asdict(totals)).encode() + b"\n"])
