"""How a bench ends: one JSON object as its last line, exit code 1 when a bar is missed."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn


@dataclass(frozen=True)
class Bar:
    """`figure` must be at least, or at most, `bar`."""

    name: str
    figure: float
    bar: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.figure <= self.bar if self.at_most else self.figure >= self.bar


def finish(bench: str, figures: Mapping[str, Any], bars: Sequence[Bar], quick: bool) -> NoReturn:
    for bar in bars:
        sign = "<=" if bar.at_most else ">="
        print(f"{'met   ' if bar.met else 'MISSED'} {bar.name}: {bar.figure:.4g} {sign} {bar.bar:g}", file=sys.stderr)
    result = {
        "bench": bench,
        "quick": quick,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "figures": dict(figures),
        "bars": {
            bar.name: {"figure": bar.figure, "at_most" if bar.at_most else "at_least": bar.bar, "met": bar.met}
            for bar in bars
        },
        "ok": all(bar.met for bar in bars),
    }
    print(json.dumps(_finite(result), allow_nan=False), flush=True)
    sys.exit(0 if result["ok"] else 1)


def _finite(value: Any) -> Any:
    """What never came about is infinite for a bar; JSON has no such number: null."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
