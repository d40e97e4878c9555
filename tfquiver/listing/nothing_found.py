"""What may have been mistyped in a path or a glob of this machine that means no file."""

from __future__ import annotations

import difflib
import fnmatch
import itertools
import os
from pathlib import Path

from tfquiver.plain_text import plain, shortened

_MOST_LOOKED_AT, _MOST_NAMED = 1000, 3  # names


def what_is_there(pattern: str) -> str:
    """Words behind `no match for PATTERN`; "": nobody knows, as of a store elsewhere."""
    if "://" in pattern or pattern.endswith(os.sep):
        return ""
    try:
        *above, last = Path(pattern).parts
        fixed = Path(*itertools.takewhile(lambda part: not set(part) & set("*?["), above)).absolute()
        if not fixed.is_dir():
            there = next(one for one in fixed.parents if one.is_dir())
            return f": there is no directory {shortened(fixed.relative_to(there).parts[0])} in {plain(there)}"
        with os.scandir(fixed) as found:
            names = sorted(one.name for one in itertools.islice(found, _MOST_LOOKED_AT))
    except (OSError, ValueError, StopIteration):
        return ""
    if ".*" in last and fnmatch.filter(names, last.replace(".*", "*")):
        return ": it is a glob, as a shell has them, in which * alone stands for any characters"
    if not names:
        return f": {plain(fixed)} is empty"
    some = difflib.get_close_matches(last, names, _MOST_NAMED, 0.3) or names[:_MOST_NAMED]
    return f": in {plain(fixed)} there are {', '.join(map(shortened, some))}{', ...' * (len(some) < len(names))}"
