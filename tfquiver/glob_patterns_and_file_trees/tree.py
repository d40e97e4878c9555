"""The tree itself (pure): sorted paths, in which a directory is a range.

Nothing is made for a directory until it is seen: a million files take what their paths take, and a list of indexes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.glob_patterns_and_file_trees import paths
from tfquiver.plain_text import shortened

ROOT = 1
CONTROL, NEXT, NEXT0 = 2, 3, 4  # .tfquiver, .tfquiver/next, .tfquiver/next0
_FIRST = 16
_AFTER_SLASH = "0"  # sorts behind all that begins with a slash, and before all else that does not


@dataclass(frozen=True, slots=True)
class Entry:
    """`inode` of a file or directory; `after`: where a listing of its directory goes on behind it."""

    name: str
    inode: int
    is_directory: bool
    after: int


class FileTree:
    """Of a digest's file table. Inodes stay what they are for as long as the object lives.

    Raises InvalidArgumentError: a URI cannot be shown as a file; names it.
    """

    def __init__(self, files: Sequence[FileEntry]) -> None:
        every, hidden = paths.split([file.uri for file in files])
        # What some consoles leave for a directory: an empty object whose name ends with a slash.
        shown = [at for at, path in enumerate(every) if not (path.endswith("/") and not files[at].size_bytes)]
        shown.sort(key=every.__getitem__)
        self._paths = [every[at] for at in shown]
        self._files = shown
        self._hidden = hidden
        self._base = self._paths[0][:hidden] if shown else ""
        self._directories: list[str] = []  # paths with their slash, by inode
        self._inodes: dict[str, int] = {self._base: ROOT}
        self._check(files)

    def __len__(self) -> int:
        return len(self._paths)

    def file_index(self, inode: int) -> int | None:
        """In the digest's file table; None: it is no file of the data set."""
        at = inode - _FIRST
        return self._files[at] if 0 <= at < len(self._files) else None

    def path(self, inode: int) -> str:
        """Of a file, relative to the root."""
        return self._paths[inode - _FIRST][self._hidden :]

    def files(self) -> Iterator[tuple[str, int]]:
        """Path and file index of every file, sorted by path."""
        return ((path[self._hidden :], at) for path, at in zip(self._paths, self._files, strict=True))

    def is_directory(self, inode: int) -> bool:
        return inode == ROOT or self._is_subdirectory(inode)

    def lookup(self, directory: int, name: str) -> Entry | None:
        """None: there is nothing of that name, or no such directory."""
        if not self.is_directory(directory) or not name or "/" in name:
            return None
        path = self._prefix(directory) + name
        at = bisect_left(self._paths, path)
        if at < len(self._paths) and self._paths[at] == path:
            return Entry(name, _FIRST + at, False, at + 1)
        at = bisect_left(self._paths, f"{path}/", at)
        if at < len(self._paths) and self._paths[at].startswith(f"{path}/"):
            return self._subdirectory(name, path, at)
        return None

    def entries(self, directory: int, start: int = 0) -> Iterator[Entry]:
        """What is in a directory, behind the entry whose `after` was `start`; 0: from the beginning. Sorted."""
        prefix = self._prefix(directory)
        at = max(start, bisect_left(self._paths, prefix))
        while at < len(self._paths) and (path := self._paths[at]).startswith(prefix):
            name, slash, _ = path[len(prefix) :].partition("/")
            entry = self._subdirectory(name, prefix + name, at) if slash else Entry(name, _FIRST + at, False, at + 1)
            yield entry
            at = entry.after

    def _subdirectory(self, name: str, path: str, at: int) -> Entry:
        inode = self._inodes.get(f"{path}/", 0)
        if not inode:
            inode = self._inodes[f"{path}/"] = _FIRST + len(self._paths) + len(self._directories)
            self._directories.append(f"{path}/")
        return Entry(name, inode, True, bisect_left(self._paths, path + _AFTER_SLASH, at))

    def _prefix(self, directory: int) -> str:
        if directory == ROOT:
            return self._base
        if not self._is_subdirectory(directory):
            raise ValueError(f"inode {directory} is no directory")
        return self._directories[directory - _FIRST - len(self._paths)]

    def _is_subdirectory(self, inode: int) -> bool:
        return 0 <= inode - _FIRST - len(self._paths) < len(self._directories)

    def _check(self, files: Sequence[FileEntry]) -> None:
        last = ""
        for path, index in zip(self._paths, self._files, strict=True):
            shown = path[self._hidden :]
            paths.check(shown, files[index].uri)
            parent = shown.rpartition("/")[0]
            if parent == last:
                continue
            last = parent
            while parent:  # an object store can have both `a` and `a/b`; a file system cannot
                whole = path[: self._hidden] + parent
                at = bisect_left(self._paths, whole)
                if at < len(self._paths) and self._paths[at] == whole:
                    both = f"{shortened(files[self._files[at]].uri)} and {shortened(files[index].uri)}"
                    raise errors.InvalidArgumentError(f"{both}: one name cannot be a file and a directory")
                parent = parent.rpartition("/")[0]
