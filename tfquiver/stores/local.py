"""Files of this machine: plain paths and file:// URIs (the path stands in the URI as it is, nothing is escaped)."""

from __future__ import annotations

import builtins
import errno
import glob
import itertools
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tfquiver import errors
from tfquiver.glob_patterns_and_file_trees import globs, trees
from tfquiver.glob_patterns_and_file_trees.files_under import FilesUnder, files_named, files_under
from tfquiver.stores import versions
from tfquiver.stores.hanging_file_systems.mounts import Mounts
from tfquiver.stores.hanging_file_systems.patience import Patience
from tfquiver.stores.object_store import ObjectInfo, ReadsAtOnce

_PREFIX = "file://"
_LIST_DEADLINE_S = 60.0
_AT_ONCE, _PART_S = 1024, 1.0  # names listed in one thread, and for so long
MOUNTS = Mounts()


def path_of(uri: str) -> str:
    return uri.removeprefix(_PREFIX)


def whole_path(path: str) -> str:
    """Absolute, without `.`, `..` and `//`: two spellings of a file are one. Behind a symbolic link `..` is what the
    kernel takes it for, and behind a pattern it stays. Blocks on the disk where there is one."""
    path = "/" + str(Path(path).absolute()).lstrip("/")  # POSIX lets `//` at the front be another root
    if ".." not in (parts := path.split("/")[1:]):
        return path
    at = ""
    for part in parts:
        above, name = os.path.split(at)
        if part != "..":
            at = f"{at}/{part}"
        elif name == ".." or (glob.has_magic(at) and not os.path.lexists(at)):
            at += "/.."
        else:
            at = (os.path.dirname(os.path.realpath(at)) if os.path.islink(at) else above).rstrip("/")  # noqa: PTH114, PTH120
    return at or "/"


class LocalStore(ReadsAtOnce):
    """The generation is `mtime_ns-size-inode`: rewriting a file changes it.

    A path may lead to a file server, which may be dead: no call waits longer than its deadline.
    """

    remote = False

    def __init__(self) -> None:
        self._patience = Patience()

    def list(self, pattern: str) -> list[ObjectInfo]:
        until_s = time.monotonic() + _LIST_DEADLINE_S
        return self._patience.call(
            pattern, _LIST_DEADLINE_S, lambda: self._listed(pattern, until_s), _mount_of(pattern)
        )

    def list_each(self, patterns: Iterable[str]) -> Iterator[builtins.list[ObjectInfo]]:
        """As `list`, of each in turn. Of many names that follow one another on one file system each does not take a
        thread of its own."""
        mounts: dict[str, str] = {}

        def mount_of(pattern: str) -> str:
            directory = os.path.dirname(path_of(pattern))  # noqa: PTH120 - of a hundred thousand names it takes a second
            if directory not in mounts:
                mounts[directory] = _mount_of(pattern)
            return mounts[directory]

        for mount, some in itertools.groupby(patterns, mount_of):
            while names := list(itertools.islice(some, _AT_ONCE)):
                while names:
                    part = _Part(names, self._listed)
                    self._patience.call(part, _LIST_DEADLINE_S, part.run, mount)
                    yield from part.found
                    if part.error:
                        raise part.error
                    del names[: len(part.found)]

    def list_at_once(self, pattern: str, but_suffix: str) -> FilesUnder | None:
        """All that `list` gives, but for names that end so, as a listing of it. None: `list` is to be asked."""
        if not globs.is_glob(pattern):
            return None
        return self._patience.call(
            pattern, _LIST_DEADLINE_S, lambda: _listed_at_once(pattern, but_suffix), _mount_of(pattern)
        )

    def list_names_at_once(self, names: Sequence[str], in_order: bool) -> FilesUnder | None:
        """All that `list_each` gives of these, sorted, each once, as a listing of it. None: it is to be asked.

        `in_order`: so they are to be given.
        """
        if not names:
            return None
        directories = {name[: name.rfind("/") + 1] for name in names}
        mount, *others = {_mount_of(f"{directory}file") for directory in directories}
        if others:  # one may hang where the other does not
            return None
        return self._patience.call(
            f"{names[0]} and others", _LIST_DEADLINE_S, lambda: files_named(names, in_order, _PREFIX), mount
        )

    def stat(self, uri: str) -> ObjectInfo:
        return self._patience.call(uri, _LIST_DEADLINE_S, lambda: self._stat(uri), _mount_of(uri))

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        mount = _mount_of(uri)
        return self._patience.call(uri, deadline_s, lambda: self._read(uri, offset, length, generation), mount)

    def close(self) -> None:
        pass

    def _listed(self, pattern: str, until_s: float) -> builtins.list[ObjectInfo]:
        """`until_s`: then nobody waits for it any more, and a thread of it that goes on would read the whole disk."""
        path = whole_path(path_of(pattern))
        try:
            # A name with brackets in it that is there means itself.
            if (found := _found(path)) is not None:
                if stat.S_ISDIR(found.st_mode):
                    raise errors.InvalidArgumentError(f"{pattern}: a directory; name its files, for example {path}/*")
                return [_info(path, found)] if stat.S_ISREG(found.st_mode) else []
            # `***`: the whole tree. To a shell `**` is without what begins with a dot; to a bucket both are the whole.
            if hidden := path.endswith("/***"):
                path = path[:-1]
            names = trees.matching(path, hidden, until_s)
            names = sorted({whole_path(name) for name in names} if "/../" in path else names)
        except OSError as error:  # longer than a path can be, for one
            raise errors.from_os_error(error, pattern) from error
        # `**` at the end has the directory itself among them, also one that is not there.
        files = (name for name in names if not name.endswith(os.sep))
        return [_info(name, found) for name in files if stat.S_ISREG((found := _stat(name)).st_mode)]

    def _stat(self, uri: str) -> ObjectInfo:
        path = str(Path(path_of(uri)).absolute())
        try:
            found = Path(path).stat()
        except OSError as error:
            raise errors.from_os_error(error, uri) from error
        if not stat.S_ISREG(found.st_mode):
            raise errors.InvalidArgumentError(f"{uri}: not a regular file")
        return _info(path, found)

    def _read(self, uri: str, offset: int, length: int, generation: str) -> bytes:
        path = path_of(uri)
        try:
            # A pipe in a file's place would be waited for as long as nobody writes it, each time by another thread.
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                versions.check(uri, "file", generation, _generation(os.fstat(file)))
                data = os.pread(file, length, offset)
                while len(data) < length and (more := os.pread(file, length - len(data), offset + len(data))):
                    data += more
                # After the read: a file rewritten in place while it was read must not pass for the old one.
                versions.check(uri, "file", generation, _generation(os.fstat(file)))
            finally:
                os.close(file)
        except FileNotFoundError as error:
            if generation:
                raise errors.StaleDigestError(f"{uri}: the file is gone since the digest was built") from error
            raise errors.from_os_error(error, uri) from error
        except OSError as error:
            raise errors.from_os_error(error, uri) from error
        versions.check_end(uri, offset, length, offset + len(data))
        return data


class _Part:
    """As many of these names as are listed in a second: one that hangs is not waited for longer among others."""

    def __init__(self, names: Sequence[str], listed: Callable[[str, float], builtins.list[ObjectInfo]]) -> None:
        self._names, self._listed = names, listed
        self.found: builtins.list[builtins.list[ObjectInfo]] = []
        self.error: Exception | None = None  # of the name after those that were found

    def __str__(self) -> str:
        """The one that is being listed."""
        return self._names[min(len(self.found), len(self._names) - 1)]

    def run(self) -> None:
        began_s = time.monotonic()
        for name in self._names:
            try:
                self.found.append(self._listed(name, began_s + _LIST_DEADLINE_S))
            except Exception as error:  # noqa: BLE001 - whoever is given those before it is given this one next
                self.error = error
                return
            if time.monotonic() >= began_s + _PART_S:
                return


def _mount_of(uri: str) -> str:
    return MOUNTS.of(str(Path(path_of(uri)).absolute()))


def _listed_at_once(pattern: str, but_suffix: str) -> FilesUnder | None:
    try:
        path = whole_path(path_of(pattern))
        if "[" in path or "**" in path or "/../" in path or _found(path) is not None:
            return None
    except OSError:
        return None
    root, _, _ = globs.literal_prefix(path).rpartition("/")
    root += "/"
    return files_under(root, path.removeprefix(root), but_suffix, prefix=_PREFIX + root)


def _found(path: str) -> os.stat_result | None:
    """None: nothing has that name. Raises OSError: nobody can say."""
    try:
        return os.stat(path)  # noqa: PTH116
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def _stat(name: str) -> os.stat_result:
    try:
        return os.stat(name)  # noqa: PTH116 - pathlib takes three times as long, of a hundred thousand files a second
    except OSError as error:
        what = "a symbolic link to nothing" if Path(name).is_symlink() else "it went while files were listed"
        raise errors.from_os_error(error, f"{name}: {what}") from error


def _generation(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"


def _info(path: str, found: os.stat_result) -> ObjectInfo:
    return ObjectInfo(_PREFIX + path, found.st_size, _generation(found))
