"""What of a page of the documentation is run, by marks: comments that its readers do not see.

* `<!-- run -->` before a fence: its code. `python` runs in the page's process, `sh` in bash (-e), in the same folder.
* `<!-- run until TEXT -->` before a fence of `sh`: each command of it (one a line) goes on beside what follows, until
  the page ends, as in a terminal of its own; the next begins when its output has TEXT, a regular expression, or when
  it has ended well.
* `, with NEW for OLD, NEW for OLD` after either: texts that are replaced by others, say a path that only the reader's
  machine has; in double quotes where it has a space. In Python `$NAME` in NEW is the environment's.
* `<!-- not run: REASON -->` before a fence: it needs what tests do not have, or another test runs it. All code has one
  of these marks (tests/unit/test_page_blocks.py).
* `<!-- file NAME -->` before a fence: its text is written to that file, in the same folder.
* `<!-- needs MODULE -->` anywhere: the page is run only where that can be imported, else its test is skipped.
* `<!-- beside a cluster -->` anywhere: one runs, with a worker of tf.data service: `$HEAD`, `$DISPATCHER` and
  `$CLUSTER` say where its servers are, and its directory. Several pages share it.
* `<!-- output -->` before a fence: what has been printed since the last one, line by line; `...` stands for anything.
* `<!-- hidden` and `-->`, each a line: Python between them that readers do not see: data, servers, assertions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

_TEXT = r'(?:"[^"]+"|[^\s",]+)'
_WITH = rf"{_TEXT} for {_TEXT}"
RUN = re.compile(rf"<!-- run(?: until (?P<until>{_TEXT}))?(?:, with (?P<swaps>{_WITH}(?:, {_WITH})*))? -->")
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+) -->")
FILE = re.compile(r"<!-- file (?P<name>[\w.-]+) -->")
NEEDS = re.compile(r"^<!-- needs (\w+) -->$", re.MULTILINE)
CLUSTER = re.compile(r"^<!-- beside a cluster -->$", re.MULTILINE)
OUTPUT, HIDDEN, HIDDEN_END = "<!-- output -->", "<!-- hidden", "-->"
_FENCE = re.compile(r"( *)```([\w-]*)")
_NO_CODE = {"", "text", "json", "yaml", "toml"}


@dataclass(frozen=True)
class Block:
    """Code, expected output or a file of a page. `line`: number of its first line, from 1."""

    kind: str  # python, sh, output, file; code: without a mark; not run
    line: int
    text: str
    name: str = ""  # of a file; why it is not run
    until: str = ""  # of sh that goes on


def blocks(page: str) -> Iterator[Block]:
    """Marked blocks, and code without a mark. Raises ValueError with the line of a mark that marks nothing."""
    lines = page.split("\n")
    at = 0
    while at < len(lines):
        mark = lines[at].strip()
        if mark == HIDDEN:
            end = _find(lines, at + 1, HIDDEN_END)
            yield Block("python", at + 2, "\n".join(lines[at + 1 : end]))
            at = end + 1
            continue
        found = next((one for kind in (RUN, NOT_RUN, FILE) if (one := kind.fullmatch(mark))), None)
        marked = found is not None or mark == OUTPUT
        opening = _FENCE.fullmatch(lines[at + marked]) if at + marked < len(lines) else None
        at += 1 + marked
        if opening is None:
            if marked:
                raise ValueError(f"line {at - 1}: no fence follows {mark}")
            continue
        indent, language = opening.groups()
        end = _find(lines, at, indent + "```")
        text = "\n".join(line.removeprefix(indent) for line in lines[at:end])
        if found is not None:
            yield _marked(found, language, at + 1, text)
        elif mark == OUTPUT:
            yield Block("output", at + 1, text)
        elif language not in _NO_CODE or text.startswith("$ "):
            yield Block("code", at + 1, text)
        at = end + 1


def _marked(mark: re.Match[str], language: str, line: int, text: str) -> Block:
    if mark.re is NOT_RUN:
        return Block("not run", line, text, mark["reason"])
    if mark.re is FILE:
        return Block("file", line, text + "\n", mark["name"])
    if language not in ("python", "sh") or (mark["until"] and language != "sh"):
        raise ValueError(f"line {line - 1}: python or sh can be run, not {language!r}")
    until = (mark["until"] or "").strip('"')
    found = re.findall(rf"({_TEXT}) for ({_TEXT})", mark["swaps"] or "")
    for new, old in ((new.strip('"'), old.strip('"')) for new, old in found):
        if old not in text:
            raise ValueError(f"line {line - 1}: there is no {old} to put {new} in place of")
        text = text.replace(old, os.path.expandvars(new) if language == "python" else new)
    return Block(language, line, text, until=until)


def _find(lines: list[str], start: int, wanted: str) -> int:
    for number in range(start, len(lines)):
        if lines[number] == wanted:
            return number
    raise ValueError(f"line {start}: what begins here does not end")
