"""Sentences as wide as a terminal: broken between words, and commands in them never (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len

_WORD = re.compile(r"(?:`[^`]*`|\S)+")
_INDENT, _CUT = "  ", " ..."


def wrapped(text: str, width: int, begins: str = "") -> list[str]:
    """Lines of `text`, which is printable. What is in backquotes is there to be copied: it stays whole, also where a
    line gets too wide by that, as a path may. `begins`: the first line."""
    lines, line = list[str](), begins
    for word in _WORD.findall(text):
        if line.strip() and line != begins and cell_len(line) + 1 + cell_len(word) > width:
            lines.append(line)
            line = _INDENT + word
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
