"""Globs over object names (pure): `*`, `?` and `[...]` stay within a path part, `**` crosses `/`."""

from __future__ import annotations

import re

from tfquiver import errors

_MAGIC = re.compile(r"[*?\[]")


def is_glob(pattern: str) -> bool:
    return bool(_MAGIC.search(pattern))


def literal_prefix(pattern: str) -> str:
    """What every name that matches begins with."""
    found = _MAGIC.search(pattern)
    return pattern[: found.start()] if found else pattern


def compile_glob(pattern: str) -> re.Pattern[str]:
    """For `fullmatch` on object names. A `[` that is never closed means itself.

    Raises InvalidArgumentError naming the pattern when a class in it cannot be ([z-a]).
    """
    parts, position = [], 0
    while position < len(pattern):
        if pattern.startswith("**/", position):
            parts.append("(?:.*/)?")
            position += 3
        elif pattern.startswith("**", position):
            parts.append(".*")
            position += 2
        elif pattern[position] == "*":
            parts.append("[^/]*")
            position += 1
        elif pattern[position] == "?":
            parts.append("[^/]")
            position += 1
        elif pattern[position] == "[" and (end := _class_end(pattern, position)) > 0:
            parts.append(_class(pattern[position + 1 : end]))
            position = end + 1
        else:
            parts.append(re.escape(pattern[position]))
            position += 1
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error as error:
        raise errors.InvalidArgumentError(f"{pattern}: not a glob: {error}") from error


def _class_end(pattern: str, start: int) -> int:
    """Index of the `]` that closes the class at `start`; -1 if none. A `]` right at the beginning is a member."""
    first = start + 2 if pattern[start + 1 : start + 2] in ("!", "^") else start + 1
    return pattern.find("]", first + 1)


def _class(body: str) -> str:
    negated = body[0] in "!^"
    members = body[1:] if negated else body
    # `a-z`, or a single character. Escaped each: `--` and others mean something else in a regular expression.
    ranges = re.sub(
        r"(.)-(.)|(.)", lambda found: "-".join(map(re.escape, filter(None, found.groups()))), members, flags=re.DOTALL
    )
    return f"(?!/)[{'^' if negated else ''}{ranges}]"
