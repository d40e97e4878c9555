"""Where entries lie under the cache directory: `objects/ab/cd/<hash>`, and `tmp/` for what is being written."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from absl import logging

from tfquiver import durable, errors
from tfquiver.service.node.disk import entry
from tfquiver.sizes_durations_amounts.amounts import many

_NAME = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(r"[0-9a-f]{64}\.[0-9]+\.part")


class Layout:
    """Makes the two directories, private to this user; what is there already stays as it is.

    Raises:
      InvalidArgumentError: the path is not a directory, one of the two is a link, or on another file system.
      PermissionError_: it cannot be written.
    """

    def __init__(self, root: Path) -> None:
        self.objects = root / "objects"
        self.temporary = root / "tmp"
        for directory in (root, self.objects, self.temporary):
            try:
                if directory is root:
                    root.mkdir(mode=0o700, parents=True, exist_ok=True)
                else:
                    durable.private_directory(directory)
                if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
                    number = errno.EROFS if os.statvfs(directory).f_flag & os.ST_RDONLY else errno.EACCES
                    raise OSError(number, os.strerror(number))
            except (FileExistsError, NotADirectoryError) as error:
                what = "a file is in the way" if isinstance(error, FileExistsError) else error.strerror
                raise errors.InvalidArgumentError(
                    f"{directory}: {what}; the cache needs a directory of its own"
                ) from error
            except OSError as error:
                raise errors.PermissionError_(
                    f"{directory}: {error.strerror}; the cache needs a directory that this user can write"
                ) from error
        if self.objects.stat().st_dev != self.temporary.stat().st_dev:
            raise errors.InvalidArgumentError(
                f"{self.objects} and {self.temporary} are on different file systems: entries could not be renamed"
            )

    def path_of(self, hash: bytes) -> Path:
        name = hash.hex()
        return self.objects / name[:2] / name[2:4] / name

    def temporary_path(self, hash: bytes, number: int) -> Path:
        return self.temporary / f"{hash.hex()}.{number}.part"

    def remove_temporaries(self) -> None:
        """What a kill left half written."""
        for path in self.temporary.iterdir():
            if _TEMPORARY.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def entries(self) -> Iterator[tuple[bytes, int]]:
        """(hash, bytes on the disk) of every entry. Names are trusted, readers check; what is no entry stays alone."""
        strangers = 0
        for first in _scan(self.objects):
            for second in _scan(first) if first.is_dir(follow_symlinks=False) else ():
                for file in _scan(second) if second.is_dir(follow_symlinks=False) else ():
                    name = file.name
                    if not _NAME.fullmatch(name) or name[:2] != first.name or name[2:4] != second.name:
                        strangers += 1
                    elif file.is_file(follow_symlinks=False):
                        size_bytes = file.stat(follow_symlinks=False).st_size
                        yield bytes.fromhex(name), entry.disk_bytes(max(size_bytes, 1))
        if strangers:
            logging.warning(
                "%s: left alone %s", self.objects, many(strangers, "file that is no entry", "files that are no entries")
            )


def _scan(directory: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as found:
        return list(found)
