"""Runs a page of the documentation as its reader would: `python -m tests.support.pages PAGE.md`, in an empty folder.

What is marked in the page with a comment before it is run, in one Python process, from top to bottom:

* `<!-- run -->` before a fence: its code. `python` runs here, `sh` in bash (-e), in the same folder. With
  `<!-- run, with NEW for OLD -->` one text is replaced by another, say a path that only the reader's machine has.
* `<!-- file NAME -->` before a fence: its text is written to that file, in the same folder.
* `<!-- needs MODULE -->` anywhere: the page is run only where that can be imported, else its test is skipped.
* `<!-- output -->` before a fence: what has been printed since the last one, line by line; `...` stands for anything.
* `<!-- hidden` and `-->`, each a line: Python between them that readers do not see: data, servers, assertions.

A traceback names the page and its line. Nothing of this is for a page to know: it can be read without.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUN = re.compile(r"<!-- run(?:, with (?P<new>\S+) for (?P<old>\S+))? -->")
FILE = re.compile(r"<!-- file (?P<name>[\w.-]+) -->")
NEEDS = re.compile(r"^<!-- needs (\w+) -->$", re.MULTILINE)
OUTPUT, HIDDEN, HIDDEN_END = "<!-- output -->", "<!-- hidden", "-->"
_ANY = "..."


@dataclass(frozen=True)
class Block:
    """Code, expected output or a file of a page. `line`: number of its first line, from 1; `name`: of a file."""

    kind: str  # python, sh, output or file
    line: int
    text: str
    name: str = ""


def blocks(page: str) -> Iterator[Block]:
    """The marked blocks in their order. Raises ValueError naming the line of a mark that marks nothing."""
    lines = page.split("\n")
    at = 0
    while at < len(lines):
        mark = lines[at].strip()
        at += 1
        if mark == HIDDEN:
            end = _find(lines, at, HIDDEN_END)
            yield Block("python", at + 1, "\n".join(lines[at:end]))
            at = end + 1
        elif (marked := RUN.fullmatch(mark)) or (named := FILE.fullmatch(mark)) or mark == OUTPUT:
            opening = re.fullmatch(r"( *)```(\w*)", lines[at]) if at < len(lines) else None
            if opening is None:
                raise ValueError(f"line {at}: no fence follows {mark}")
            indent, language = opening.groups()
            if marked and language not in ("python", "sh"):
                raise ValueError(f"line {at + 1}: python or sh can be run, not {language!r}")
            end = _find(lines, at + 1, indent + "```")
            text = "\n".join(line.removeprefix(indent) for line in lines[at + 1 : end])
            if marked and marked["old"]:
                text = text.replace(marked["old"], marked["new"])
            if marked:
                yield Block(language, at + 2, text)
            elif named:
                yield Block("file", at + 2, text + "\n", named["name"])
            else:
                yield Block("output", at + 2, text)
            at = end + 1


def _find(lines: list[str], start: int, wanted: str) -> int:
    for number in range(start, len(lines)):
        if lines[number] == wanted:
            return number
    raise ValueError(f"line {start}: what begins here does not end")


def matches(expected: str, printed: str) -> bool:
    """Whether `printed` is `expected`, in which `...` stands for anything, also for several lines or none."""
    pattern = ".*".join(re.escape(part) for part in expected.strip().split(_ANY))
    return (
        re.fullmatch(pattern, "\n".join(line.rstrip() for line in printed.strip().split("\n")), re.DOTALL) is not None
    )


def run(path: Path) -> None:
    """Runs a page here; what it prints goes to a file first, because its `sh` prints, too."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = os.dup(1)
    with open("printed", "w+b") as printed:  # noqa: PTH123 - in the page's own folder
        os.dup2(printed.fileno(), 1)
        read = 0
        try:
            for block in blocks(path.read_text()):
                if block.kind == "python":
                    exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec", dont_inherit=True), names)
                elif block.kind == "sh":
                    sys.stdout.flush()
                    subprocess.run(["bash", "-euc", block.text], check=True)
                elif block.kind == "file":
                    Path(block.name).write_text(block.text)
                else:
                    sys.stdout.flush()
                    text = os.pread(printed.fileno(), 1 << 20, read)
                    read += len(text)
                    if not matches(block.text, text.decode()):
                        raise AssertionError(f"{path}:{block.line}: printed was\n{text.decode()}")
        finally:
            sys.stdout.flush()
            os.dup2(shown, 1)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
