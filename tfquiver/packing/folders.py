"""The files of a folder to be packed: links are followed, and what has two names is packed under one. Of millions each
is a string until all are found, and no more than its name's bytes from then on.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from tfquiver import errors, named_files

Told = Callable[[Path], None]
BETWEEN = "\0"  # a key's names, where its path has slashes: before whatever is in one, so keys are sorted as paths are


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """`real`: the file without links in its path; `folder`: the one that it lies in, so, too."""

    is_link: bool
    path: Path
    real: str
    folder: str


@dataclass(frozen=True)
class Files(Sequence[Path]):
    """Paths, each made whenever it is asked for. `names`: all of them, with a zero byte between two."""

    names: bytes
    length: int

    @classmethod
    def of(cls, keys: Sequence[str]) -> Files:
        return cls(b"\0".join(os.fsencode(key.replace(BETWEEN, "/")) for key in keys), len(keys))

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Path]:
        return (Path(os.fsdecode(name)) for name in self._names())

    @overload
    def __getitem__(self, at: int) -> Path: ...
    @overload
    def __getitem__(self, at: slice) -> list[Path]: ...
    def __getitem__(self, at: int | slice) -> Path | list[Path]:
        if at == 0 and self.length:
            return Path(os.fsdecode(self.names.partition(b"\0")[0]))
        return list(self)[at]

    def folders(self) -> list[Path]:
        """That they lie in, each once."""
        folders = dict.fromkeys(name[: name.rfind(b"/") + 1] for name in self._names())
        return [Path(os.fsdecode(folder)) for folder in folders]

    def _names(self) -> list[bytes]:
        return self.names.split(b"\0") if self.length else []


class FilesIn:
    """All files below a folder, of `files_in`."""

    def __init__(self) -> None:
        self._keys: list[str] = []  # of those that are no links
        self._reals: dict[str, str] = {}  # of each folder, as keys in it begin: without links
        self._links: list[Found] = []

    def __iter__(self) -> Iterator[Found]:
        yield from map(self._found, self._keys)
        yield from self._links

    def add_folder(self, folder: Path, real: str) -> str:
        """How keys in it begin."""
        its = begins(folder)
        self._reals[its] = real
        return its

    def add(self, key: str) -> None:
        self._keys.append(key)

    def add_link(self, path: Path, folder: str) -> None:
        self._links.append(Found(True, path, os.path.realpath(path), folder))

    def ending(self, suffix: str) -> list[Found]:
        found = [self._found(key) for key in self._keys if _suffix(key) == suffix]
        return found + [link for link in self._links if link.path.suffix == suffix]

    def called(self, names: Collection[str]) -> Iterator[Found]:
        yield from (self._found(key) for key in self._keys if key[key.rfind(BETWEEN) + 1 :] in names)
        yield from (link for link in self._links if link.path.name in names)

    def not_ending(self, suffixes: Collection[str]) -> Iterator[Path]:
        """In whatever letters; sorted."""
        keys = [key for key in self._keys if _suffix(key).lower() not in suffixes]
        keys += [_key(link.path) for link in self._links if link.path.suffix.lower() not in suffixes]
        return map(path_of, sorted(keys))

    def once_in_each_folder(self, suffixes: Collection[str], passed_over: Told) -> list[str]:
        """Keys, sorted, of those that end so in whatever letters; but for links to such files of their own folder, or
        to what another one there is a link to."""
        keys = [key for key in self._keys if _suffix(key).lower() in suffixes]
        taken = set[tuple[str, str]]()
        for link in sorted(link for link in self._links if link.path.suffix.lower() in suffixes):
            folder, _, name = link.real.rpartition("/")
            is_beside = folder == link.folder and _suffix(name).lower() in suffixes
            if is_beside or (link.real, link.folder) in taken:
                passed_over(link.path)
            else:
                taken.add((link.real, link.folder))
                keys.append(_key(link.path))
        keys.sort()
        return keys

    def _found(self, key: str) -> Found:
        real = self._reals[key[: key.rfind(BETWEEN) + 1]]
        return Found(False, path_of(key), f"{real}/{key[key.rfind(BETWEEN) + 1 :]}", real)


def files_in(root: Path, needed: Collection[str], passed_over: Told) -> FilesIn:
    """All below it. Each folder is gone through once, under the name without a link if it has one below `root`.

    Args:
      needed: endings of names; a link with one of them that leads nowhere is not left out.
      passed_over: is told of links to folders that are gone through under another name, and of those that lead in
        circles.

    Raises NotFoundError, PermissionError_ and others: what cannot be read is not left out.
    """
    found, seen = FilesIn(), set[str]()
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
                its = found.add_folder(folder, real)
                for entry in _entries(folder):
                    kind, is_link = _kind(entry), entry.is_symlink()
                    if kind == "file" and not is_link:
                        found.add(its + entry.name)
                        continue
                    path = Path(entry.path)
                    if kind == "folder":
                        (links if is_link else folders).append(path)
                    elif kind == "file":
                        found.add_link(path, real)
                    elif kind == "circle":
                        passed_over(path)
                    elif is_link and path.suffix.lower() in needed:
                        raise errors.NotFoundError(f"{path}: a link to what is not there, {path.readlink()}")
    return found


def once(found: Sequence[Found], passed_over: Told) -> list[Path]:
    """Their paths, sorted, without links to files that are there under another name."""
    taken, kept = set[str](), list[Path]()
    for one in sorted(found):  # links last
        if one.real in taken:
            passed_over(one.path)
        else:
            taken.add(one.real)
            kept.append(one.path)
    return sorted(kept)


def folders_of(files: Sequence[Path]) -> list[Path]:
    """That they lie in, each once."""
    return files.folders() if isinstance(files, Files) else list(dict.fromkeys(file.parent for file in files))


def begins(folder: Path) -> str:
    """How the keys begin of what lies in it."""
    return "" if folder == Path() else _key(folder).rstrip(BETWEEN) + BETWEEN


def path_of(key: str) -> Path:
    return Path(key.replace(BETWEEN, "/"))


def _key(path: Path) -> str:
    return str(path).replace("/", BETWEEN)


def _suffix(key: str) -> str:
    """As Path.suffix."""
    dot, name = key.rfind("."), key.rfind(BETWEEN) + 1
    return key[dot:] if name < dot < len(key) - 1 else ""


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError as error:
        raise named_files.not_read(error, str(error.filename or folder), error.filename or folder) from error


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        return "folder" if entry.is_dir() else "file" if entry.is_file() else ""
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "circle"
        raise named_files.not_read(error, entry.path, entry.path) from error
