"""Names on this machine that a pattern matches, as `glob.glob` gives them, but through no link in a circle.

A link to a directory that it is in itself is a tree without an end: `glob` goes forty links deep, so that each file is
there forty times; of two such links no list comes to its end.

Directories that link to one another in many ways are no circle: ten of them are millions of trees, each file in all. A
directory is gone through once for each link to it, by whatever names; behind another link only if those links are met
in so many ways, and else the pattern is refused. All links in the tree that one link leads to are one way: else
`current -> v3` would be refused where many directories of v3 link to one.
"""

from __future__ import annotations

import glob
import itertools
import os
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.plain_text import plain, shortened

_SAID_EVERY_S = 10.0  # of trees in a circle there may be thousands
_MOST_SAID = 1024
_SECOND_LINK = 2  # places, where the next link is one
MOST_WAYS = 256  # to one directory: links whose trees have links to it


def matching(pattern: str, hidden: bool, until_s: float = float("inf")) -> Iterable[str]:
    """In any order, each once; directories too, but for those that `**` at the end stands for.

    Args:
      hidden: `*` and `**` also stand for names that begin with a dot.
      until_s: on the clock of `time.monotonic`: then nobody waits for it any more.

    Raises:
      InvalidArgumentError: links lead to one directory in too many ways; names it.
      UnavailableError: it takes too long; names the directory that it had come to.
    """
    before, magic, after = _divided(pattern)
    if not magic:
        # pathlib has no absolute patterns
        return glob.glob(pattern, include_hidden=hidden)  # noqa: PTH207
    roots = glob.glob(before, include_hidden=hidden) if glob.has_magic(before) else [before]  # noqa: PTH207
    found: dict[str, None] = {}
    for root in roots:
        for directory, files in _tree(root, hidden, until_s):
            if after:
                behind = os.path.join(glob.escape(directory), after)  # noqa: PTH118
                found |= dict.fromkeys(matching(behind, hidden, until_s))
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


def _tree(root: str, hidden: bool, until_s: float) -> Iterator[tuple[str, list[str]]]:
    """Each directory in and under one, and all else that is in it. What cannot be looked into is left out, as by
    `glob`. Raises as `matching`."""
    targets = _Targets(root)
    # And whence links lead to it, its own place last, and the last link on its way. What is near comes first: names
    # with forty links on their way, as many as the kernel follows, take long, and most of them would be seen before one
    # directory too often.
    left = deque[tuple[str, tuple[str, ...], str]]([(root, (os.path.realpath(root),), "")])
    while left:
        directory, places, link = left.popleft()
        files: list[str] = []
        if time.monotonic() > until_s:
            raise errors.UnavailableError(
                f"{plain(root, _MOST_SAID)}: it takes too long to list it: given up in {plain(directory, _MOST_SAID)}"
            )
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name.startswith(".") and not hidden:
                        continue
                    if not _is_directory(entry):
                        files.append(entry.path)
                    elif not entry.is_symlink():
                        left.append((entry.path, (*places[:-1], f"{places[-1].rstrip('/')}/{entry.name}"), link))
                    elif any(_is_in(place, target := targets.of(entry)) for place in places):
                        every_n_seconds(
                            logging.WARNING, "%s: left out: a link to %s, which it is in", _SAID_EVERY_S,
                            shortened(entry.path), shortened(target),
                        )  # fmt: skip
                    else:
                        if len(places) >= _SECOND_LINK:
                            targets.count(entry, link)
                        left.append((entry.path, (*places, target), entry.path))
        except OSError:
            continue
        yield directory, files


class _Targets:
    """Directories that links of one tree lead to, by device and inode. Each call raises OSError: nobody can say."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._paths: dict[tuple[int, int], str] = {}
        self._ways = defaultdict[tuple[int, int], set[str]](set)

    def of(self, link: os.DirEntry[str]) -> str:
        """Its real path. To find it takes long, behind many links: it is found once."""
        found = link.stat()
        key = found.st_dev, found.st_ino
        if key not in self._paths:
            self._paths[key] = os.path.realpath(link.path)
        return self._paths[key]

    def count(self, link: os.DirEntry[str], way: str) -> None:
        """`way`: the link before."""
        found = link.stat()
        ways = self._ways[found.st_dev, found.st_ino]
        ways.add(way)
        if len(ways) > MOST_WAYS:
            raise errors.InvalidArgumentError(
                f"{plain(self._root, _MOST_SAID)}: more than {MOST_WAYS} ways lead through symbolic links to the "
                f"directory {plain(self.of(link), _MOST_SAID)}, the last one {plain(link.path, _MOST_SAID)}: name the "
                "directories that are meant one by one, or remove links"
            )


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_in(place: str, directory: str) -> bool:
    return place == directory or place.startswith(f"{directory.rstrip('/')}/")
