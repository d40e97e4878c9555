"""Names on this machine that a pattern matches, as `glob.glob` gives them, but through no link in a circle.

A link to a directory that it is in itself is a tree without an end: `glob` goes forty links deep, so that each file is
there forty times; of two such links no list comes to its end.
"""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Iterable, Iterator

from absl import logging

from tfquiver.plain_text import shortened
from tfquiver.rare_lines import every_n_seconds

_SAID_EVERY_S = 10.0  # of trees in a circle there may be thousands


def matching(pattern: str, hidden: bool) -> Iterable[str]:
    """In any order, each once; directories too, but for those that `**` at the end stands for.

    Args:
      hidden: `*` and `**` also stand for names that begin with a dot.
    """
    before, magic, after = _divided(pattern)
    if not magic:
        # pathlib has no absolute patterns
        return glob.glob(pattern, include_hidden=hidden)  # noqa: PTH207
    roots = glob.glob(before, include_hidden=hidden) if glob.has_magic(before) else [before]  # noqa: PTH207
    found: dict[str, None] = {}
    for root in roots:
        for directory, files in _tree(root, hidden):
            if after:
                found |= dict.fromkeys(matching(os.path.join(glob.escape(directory), after), hidden))  # noqa: PTH118
            else:
                found |= dict.fromkeys(files)
    return found


def _divided(pattern: str) -> tuple[str, bool, str]:
    """At its first part that is `**`: what is before, whether there is one, what is behind."""
    parts = pattern.split("/")
    if "**" not in parts:
        return pattern, False, ""
    at = parts.index("**")
    behind = itertools.dropwhile(lambda part: part == "**", parts[at:])  # more of them say no more than one
    return "/".join(parts[:at]) or "/", True, "/".join(behind)


def _tree(root: str, hidden: bool) -> Iterator[tuple[str, list[str]]]:
    """Each directory in and under one, and all else that is in it. What cannot be looked into is left out, as by
    `glob`."""
    # And whence links lead to it, its own place last.
    left: list[tuple[str, tuple[str, ...]]] = [(root, (os.path.realpath(root),))]
    while left:
        directory, places = left.pop()
        files: list[str] = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name.startswith(".") and not hidden:
                        continue
                    if not _is_directory(entry):
                        files.append(entry.path)
                    elif not entry.is_symlink():
                        left.append((entry.path, (*places[:-1], f"{places[-1].rstrip('/')}/{entry.name}")))
                    elif any(_is_in(place, target := os.path.realpath(entry.path)) for place in places):
                        every_n_seconds(
                            logging.WARNING, "%s: left out: a link to %s, which it is in", _SAID_EVERY_S,
                            shortened(entry.path), shortened(target),
                        )  # fmt: skip
                    else:
                        left.append((entry.path, (*places, target)))
        except OSError:
            continue
        yield directory, files


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_in(place: str, directory: str) -> bool:
    return place == directory or place.startswith(f"{directory.rstrip('/')}/")
