"""As much of a status as a terminal has room for, and sentences as wide: broken between words, and commands in them
never (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from tfquiver.cli.status_tables_and_warnings import nodes_view

_WORD = re.compile(r"(?:`[^`]*`|\S)+")
_INDENT, _CUT = "  ", " ..."
_MOST_READ = 100  # columns


def cut(status: Mapping[str, Any], room: int) -> tuple[Mapping[str, Any], int]:
    """`status`, with no more rows of a table than there are lines; and about how many lines are left out so. To lay out
    thousands takes longer than it is between two looks."""
    kept: dict[str, Any] = {}
    left_out = 0
    for key in ("problems", "sessions", "remote_io"):
        kept[key] = status[key][:room]
        left_out += len(status[key]) - len(kept[key])
    shown = 0
    kept["nodes"] = []
    for node in status["nodes"]:
        shown += "error" not in node
        if "error" in node or shown <= room:  # those that are silent are counted, and have no row
            kept["nodes"].append(node)
        else:
            left_out += 1 + len(nodes_view.placed([node]))
    # Of those that move there are lines above.
    kept["datasets"] = [one for at, one in enumerate(status["datasets"]) if at < room or one.get("moving_shards")]
    return {**status, **kept}, left_out + len(status["datasets"]) - len(kept["datasets"])


def prose(text: str, width: int) -> str:
    """What is read from its beginning to its end, as what columns are: no wider than one reads, also in a pipe."""
    return "\n".join(wrapped(text, min(width, _MOST_READ), further=""))


def wrapped(text: str, width: int, begins: str = "", further: str = _INDENT) -> list[str]:
    """Lines of `text`, which is printable. What is in backquotes is there to be copied: it stays whole, also where a
    line gets too wide by that, as a path may. `begins`: the first line; `further`: the others."""
    if cell_len(begins + text) <= width:
        return [begins + text]
    lines, line = list[str](), begins
    for word in _WORD.findall(text):
        if line.strip() and line != begins and cell_len(line) + 1 + cell_len(word) > width:
            lines.append(line)
            line = further + word
        else:
            line = line + word if line in ("", begins) else f"{line} {word}"
    return [*lines, line]


def of_problems(problems: Sequence[str], width: int, most: int | None = None) -> list[str]:
    """At most so many lines of those that stand first; of the first one at least the beginning."""
    lines = list[str]()
    for problem in problems:
        its = wrapped(problem, width, "! ")
        if most is not None and len(lines) + len(its) > most:
            return lines or [*its[: most - 1], f"{its[most - 1][: width - len(_CUT)]}{_CUT}"]
        lines += its
    return lines
