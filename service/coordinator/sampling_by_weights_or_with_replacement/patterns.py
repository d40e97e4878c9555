"""Which of a data set's files are meant by a pattern. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from posixpath import basename

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.likely_patterns import (
    MAGIC,
    LikelyPatterns,
)

MOST_PATTERNS = 10_000


def first_matches(patterns: Sequence[str], files: Sequence[str]) -> npt.NDArray[np.int64]:
    """Shape [files]: the first pattern that each file matches; -1: none.

    `*`, `?` and `[...]` as in a shell, but for `*`, which spans slashes. One without a slash is matched with a file's
    name, another one with its URI or any end of it that begins at a slash.
    """
    if len(patterns) > MOST_PATTERNS:
        raise ValueError(f"{len(patterns)} patterns of files; at most {MOST_PATTERNS}")
    exact = {pattern: at for at, pattern in reversed(list(enumerate(patterns)))}
    exact_names = {basename(pattern) for pattern in patterns}
    likely = LikelyPatterns({at: pattern for at, pattern in enumerate(patterns) if MAGIC.search(pattern)})
    compiled = {at: re.compile(_expression(patterns[at])).fullmatch for at in likely.places}
    found = np.full(len(files), -1, np.int64)
    for place, uri in enumerate(files):
        first, name = len(patterns), basename(uri)
        if name in exact_names:
            first = min((exact[end] for end in _ends(uri) if end in exact), default=first)
        for at in likely.of(uri):
            if at >= first:
                break
            if compiled[at](uri if "/" in patterns[at] else name):
                first = at
        if first < len(patterns):
            found[place] = first
    return found


def check_all_used(patterns: Sequence[str], found: npt.NDArray[np.int64], what: str) -> None:
    """Raises ValueError naming a pattern that no file has as its first."""
    unused = np.setdiff1d(np.arange(len(patterns)), found)
    if len(unused):
        raise ValueError(
            f"{what}: no file is left for the pattern {patterns[unused[0]]!r}: none matches, or earlier ones took them"
        )


def _expression(pattern: str) -> str:
    if "/" not in pattern or "://" in pattern:
        return translate(pattern)
    return "(?s:.*/)?" + translate(pattern.removeprefix("/"))


def _ends(uri: str) -> list[str]:
    """The URI, and every end of it that begins at a slash, with it and without."""
    ends = [uri[at:] for at, character in enumerate(uri) if character == "/"]
    return [uri, *ends, *(end[1:] for end in ends)]
