"""A path, followed through its symbolic links one name after the other, so that whoever hangs knows where. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection

_MOST_LINKS, _MOST_CHARACTERS = 40, 4096  # as the kernel


def walk(
    path: str, mount_points: Collection[str], enter: Callable[[str, str], bool], link_at: Callable[[str], str]
) -> None:
    """From the root to `path`, which is absolute. A mount point is no symbolic link: it is not asked what it is. What
    is longer than a path can be is not walked.

    Args:
      enter: told each directory before a name in it is looked at, and the whole path as far as it is known by then; at
        the end the path alone. False: it is to stay out, and the walk ends there.
      link_at: what a symbolic link says; raises OSError where there is none. May hang.
    """
    names = path.split("/")[::-1]  # the next one is the last
    here, links = "", 0  # "" is the root
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            here = here.rpartition("/")[0]
            continue
        there = f"{here}/{name}"
        if there not in mount_points:
            ahead = "/".join([there, *names[::-1]])
            if not enter(here or "/", ahead) or len(ahead) > _MOST_CHARACTERS:
                return
            try:
                link = link_at(there)
            except (OSError, ValueError):
                link = ""
            if link:
                links += 1
                if links > _MOST_LINKS:
                    return
                names += link.split("/")[::-1]
                here = "" if link.startswith("/") else here
                continue
        here = there
    enter(here or "/", here or "/")
