"""The files of a folder to be packed: links are followed, and what has two names is packed under one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfquiver import errors, named_files

Told = Callable[[Path], None]


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """`real`: the file without links in its path; `folder`: the one that it lies in, so, too."""

    is_link: bool
    path: Path
    real: str
    folder: str


def files_in(root: Path, needed: Collection[str], passed_over: Told) -> list[Found]:
    """All below it. Each folder is gone through once, under the name without a link if it has one below `root`.

    Args:
      needed: endings of names; a link with one of them that leads nowhere is not left out.
      passed_over: is told of links to folders that are gone through under another name, and of those that lead in
        circles.

    Raises NotFoundError, PermissionError_ and others: what cannot be read is not left out.
    """
    found: list[Found] = []
    seen: set[str] = set()
    links = [root]
    while links:
        begun, links = sorted(links, reverse=True), []
        while begun:
            top = begun.pop()
            folders = [top]
            while folders:
                folder = folders.pop()
                real = os.path.realpath(folder)
                if real in seen:
                    passed_over(folder)
                    continue
                seen.add(real)
                for entry in _entries(folder):
                    path, kind = Path(entry.path), _kind(entry)
                    if kind == "folder":
                        (links if entry.is_symlink() else folders).append(path)
                    elif kind == "file" and entry.is_symlink():
                        found.append(Found(True, path, os.path.realpath(path), real))
                    elif kind == "file":
                        found.append(Found(False, path, f"{real}/{entry.name}", real))
                    elif kind == "circle":
                        passed_over(path)
                    elif entry.is_symlink() and path.suffix.lower() in needed:
                        raise errors.NotFoundError(f"{path}: a link to what is not there, {path.readlink()}")
    return found


def once(found: Sequence[Found], in_each_folder: bool, passed_over: Told) -> list[Path]:
    """Their paths, sorted, without links to files that are there under another name (in another folder they stay, where
    that makes a difference)."""
    taken: set[tuple[str, str]] = set()
    kept = []
    for one in sorted(found):  # links last
        key = one.real, one.folder if in_each_folder else ""
        if key in taken:
            passed_over(one.path)
        else:
            taken.add(key)
            kept.append(one.path)
    return sorted(kept)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise named_files.not_read(error, str(error.filename or folder), error.filename or folder) from error


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        return "folder" if entry.is_dir() else "file" if entry.is_file() else ""
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "circle"
        raise named_files.not_read(error, entry.path, entry.path) from error
