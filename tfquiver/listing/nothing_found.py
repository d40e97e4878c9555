"""What may have been mistyped in a path, a glob or a web address that means no file."""

from __future__ import annotations

import difflib
import fnmatch
import itertools
import os
import re
from pathlib import Path

from tfquiver.plain_text import plain, shortened
from tfquiver.stores.listings import web_listing
from tfquiver.stores.object_store import scheme_of

_ONE_SLASH = re.compile("(gs|s3|az|abfs|https?):/?([^/].*)")
_MOST_LOOKED_AT, _MOST_NAMED = 1000, 3  # names


def what_is_there(pattern: str) -> str:
    """Words behind `no match for PATTERN`; "": nobody knows, as of a bucket."""
    if pattern.startswith("file://"):
        return what_is_there(pattern.removeprefix("file://"))
    if scheme_of(pattern) in web_listing.SCHEMES:
        return _of_web(pattern)
    if "://" in pattern or pattern.endswith(os.sep):
        return ""
    if slash := _ONE_SLASH.fullmatch(pattern):
        return f": write {slash[1]}://{slash[2]}"
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
    some = _nearest(last, names) or names[:_MOST_NAMED]
    return f": in {plain(fixed)} there are {', '.join(map(shortened, some))}{', ...' * (len(some) < len(names))}"


def _nearest(meant: str, names: list[str]) -> list[str]:
    """The most like it first, and those as like in order of their names, which difflib turns around."""
    like = difflib.SequenceMatcher(b=meant)
    found = {}
    for name in difflib.get_close_matches(meant, names, len(names), 0.3):
        like.set_seq1(name)
        found[name] = like.ratio()
    return sorted(found, key=lambda name: (-found[name], name))[:_MOST_NAMED]


def _of_web(pattern: str) -> str:
    if meant := web_listing.in_bucket(pattern):
        return f": files of that bucket are named {meant}"
    buckets = "gs://BUCKET/..., s3://BUCKET/... or az://CONTAINER/..."
    if web_listing.is_pattern(pattern):
        return (
            ": a web server is asked for its index page, and none is there that links to such files: name each file "
            f"whole; files in buckets are named {buckets}"
        )
    return f": that web server has no such file; files in buckets are named {buckets}"
