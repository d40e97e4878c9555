"""How a bench ends: one JSON object as its last line, exit code 1 when a bar is missed, or when something failed."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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


def quick_parser(doc: str | None, quick: str) -> argparse.ArgumentParser:
    """Of a bench's flags. `quick`: what --quick, which each has, leaves out."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser


def run_bench(main: Callable[[], object]) -> None:
    """Runs a bench that ends with `finish`. What is raised in it, because a job, a server or a call failed, say, is in
    its last line (`failed`), after the traceback on stderr: whoever reads results of many benches needs one of each."""
    try:
        main()
    except Exception as error:  # noqa: BLE001 - whatever it was
        traceback.print_exc()
        result = _about(Path(sys.argv[0]).stem, "--quick" in sys.argv[1:])
        print(json.dumps(result | {"figures": {}, "bars": {}, "failed": _said(error), "ok": False}), flush=True)
        sys.exit(1)


def _said(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_said, error.exceptions))
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}"


def finish(bench: str, figures: Mapping[str, Any], bars: Sequence[Bar], quick: bool, *, skipped: str = "") -> NoReturn:
    """`skipped`: why no bar could be tried, and what to install: no bar is none that is met."""
    for bar in bars:
        sign = "<=" if bar.at_most else ">="
        print(f"{'met   ' if bar.met else 'MISSED'} {bar.name}: {bar.figure:.4g} {sign} {bar.bar:g}", file=sys.stderr)
    result = _about(bench, quick) | {
        "figures": dict(figures),
        "bars": {
            bar.name: {"figure": bar.figure, "at_most" if bar.at_most else "at_least": bar.bar, "met": bar.met}
            for bar in bars
        },
        "ok": all(bar.met for bar in bars),
    }
    if skipped:
        print(f"skipped: {skipped}", file=sys.stderr)
        result["skipped"] = skipped
    print(json.dumps(_finite(result), allow_nan=False), flush=True)
    sys.exit(0 if result["ok"] else 1)


def _about(bench: str, quick: bool) -> dict[str, Any]:
    return {"bench": bench, "quick": quick, "cores": os.cpu_count(), "python": platform.python_version()}


def _finite(value: Any) -> Any:
    """What never came about is infinite for a bar; JSON has no such number: null."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
