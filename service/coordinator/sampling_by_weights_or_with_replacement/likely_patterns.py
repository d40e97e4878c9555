"""Patterns that may match a file, found by the parts of its path. Pure.

A thousand classes, a folder each, tried one by one with a hundred thousand files took a minute, where an epoch has
seconds to be drawn; and whoever asked for that scheme meanwhile was refused.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal

MAGIC = re.compile(r"[*?\[]")
_Sign = tuple[Literal["whole", "begin", "end"], str]


class LikelyPatterns:
    """`places`: of all of them, rising."""

    def __init__(self, patterns: Mapping[int, str]) -> None:
        """`patterns`: with wildcards, by place; as of `patterns.first_matches`."""
        self.places = sorted(patterns)
        signs = {at: list(_signs(pattern)) for at, pattern in patterns.items()}
        common = Counter(sign for its in signs.values() for sign in its)
        self._always: list[int] = []
        self._by_sign = defaultdict[_Sign, list[int]](list)
        for at in self.places:
            (self._by_sign[min(signs[at], key=common.__getitem__)] if signs[at] else self._always).append(at)
        self._begin_lengths = sorted({len(text) for kind, text in self._by_sign if kind == "begin"})
        self._end_lengths = sorted({len(text) for kind, text in self._by_sign if kind == "end"})
        self._directory: tuple[str, list[int]] | None = None  # the last one: files are sorted, as a rule

    def of(self, uri: str) -> list[int]:
        """Rising: all that match, and perhaps some that do not."""
        directory, _, name = uri.rpartition("/")
        if self._directory is None or self._directory[0] != directory:
            its = {at for part in directory.split("/") for at in self._of_part(part)}
            self._directory = directory, sorted(its.union(self._always))
        found = self._of_part(name)
        for length in self._end_lengths:
            found += self._by_sign.get(("end", name[-length:]), ())
        return sorted({*self._directory[1], *found}) if found else self._directory[1]

    def _of_part(self, part: str) -> list[int]:
        found = [*self._by_sign.get(("whole", part), ())]
        for length in self._begin_lengths:
            found += self._by_sign.get(("begin", part[:length]), ())
        return found


def _signs(pattern: str) -> Iterator[_Sign]:
    """What a part of the path of each file that matches is, or begins with; and what its name ends with."""
    start = 0
    while start < len(pattern):
        magic, slash = MAGIC.search(pattern, start), pattern.find("/", start)
        if magic is None or 0 <= slash < magic.start():
            end = slash if slash >= 0 else len(pattern)
            if end > start:
                yield "whole", pattern[start:end]
            start = end + 1
            continue
        if magic.start() > start:
            yield "begin", pattern[start : magic.start()]
        if slash < 0 or "[" in pattern[start:]:  # in which a slash may be meant
            break
        start = slash + 1
    if end_text := re.split(r"[*?\[\]]", pattern)[-1].rpartition("/")[2]:
        yield "end", end_text
