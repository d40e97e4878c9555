"""A file system that passes on to a directory: `python -m tests.support.passing_on BEHIND MOUNT_POINT`.

SIGUSR1 stops it between two requests: the kernel lets nobody go, not of kill -9 either, whose request it has read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyfuse3
import trio

_KNOWN_S = 300.0  # names and attributes: who looks at what is there already does not wait


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise pyfuse3.FUSEError(error.errno or errno.EIO) from error


class _PassesOn(pyfuse3.Operations):
    """An inode is a path: nothing that is renamed is looked up again by its old number but files that are open."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self._paths: dict[int, str] = {pyfuse3.ROOT_INODE: root}

    def _below(self, parent: int, name: bytes) -> str:
        return f"{self._paths[parent]}/{os.fsdecode(name)}"

    def _entry(self, path: str) -> pyfuse3.EntryAttributes:
        with _told():
            found = os.lstat(path)
        told = pyfuse3.EntryAttributes()
        for name in ("mode", "nlink", "uid", "gid", "size", "atime_ns", "mtime_ns", "ctime_ns", "blocks"):
            setattr(told, f"st_{name}", getattr(found, f"st_{name}"))
        told.st_ino = pyfuse3.InodeT(found.st_ino)
        told.entry_timeout = told.attr_timeout = _KNOWN_S
        if path != self._paths[pyfuse3.ROOT_INODE]:
            self._paths[found.st_ino] = path
        return told

    async def lookup(self, parent_inode: Any, name: Any, ctx: Any) -> Any:
        return self._entry(self._below(parent_inode, name))

    async def getattr(self, inode: Any, ctx: Any) -> Any:
        return self._entry(self._paths[inode])

    async def setattr(self, inode: Any, attr: Any, fields: Any, fh: Any, ctx: Any) -> Any:
        with _told():
            if fields.update_size:
                os.truncate(self._paths[inode], attr.st_size)
            if fields.update_mode:
                os.chmod(self._paths[inode], stat.S_IMODE(attr.st_mode))  # noqa: PTH101
        return self._entry(self._paths[inode])

    async def opendir(self, inode: Any, ctx: Any) -> Any:
        return inode

    async def readdir(self, fh: Any, start_id: int, token: Any) -> None:
        for at, name in enumerate(sorted(os.listdir(self._paths[fh]))[start_id:], start_id + 1):  # noqa: PTH208
            with contextlib.suppress(pyfuse3.FUSEError):
                if not pyfuse3.readdir_reply(token, os.fsencode(name), self._entry(f"{self._paths[fh]}/{name}"), at):
                    return

    async def mkdir(self, parent_inode: Any, name: Any, mode: Any, ctx: Any) -> Any:
        with _told():
            os.mkdir(path := self._below(parent_inode, name), mode)  # noqa: PTH102
        return self._entry(path)

    async def mknod(self, parent_inode: Any, name: Any, mode: Any, rdev: Any, ctx: Any) -> Any:
        with _told():
            os.mknod(path := self._below(parent_inode, name), mode, rdev)
        return self._entry(path)

    async def unlink(self, parent_inode: Any, name: Any, ctx: Any) -> None:
        with _told():
            os.unlink(self._below(parent_inode, name))  # noqa: PTH108

    async def rename(
        self, parent_inode_old: Any, name_old: Any, parent_inode_new: Any, name_new: Any, flags: Any, ctx: Any
    ) -> None:
        with _told():
            os.rename(self._below(parent_inode_old, name_old), path := self._below(parent_inode_new, name_new))  # noqa: PTH104
        self._entry(path)

    async def create(self, parent_inode: Any, name: Any, mode: Any, flags: Any, ctx: Any) -> Any:
        with _told():
            fd = os.open(path := self._below(parent_inode, name), (flags & ~os.O_APPEND) | os.O_CREAT, mode)
        return pyfuse3.FileInfo(fh=pyfuse3.FileHandleT(fd)), self._entry(path)

    async def open(self, inode: Any, flags: Any, ctx: Any) -> Any:
        with _told():
            return pyfuse3.FileInfo(fh=pyfuse3.FileHandleT(os.open(self._paths[inode], flags & ~os.O_APPEND)))

    async def read(self, fh: Any, off: int, size: int) -> bytes:
        return os.pread(fh, size, off)

    async def write(self, fh: Any, off: int, buf: Any) -> int:
        with _told():
            return os.pwrite(fh, buf, off)

    async def statfs(self, ctx: Any) -> Any:
        told, found = pyfuse3.StatvfsData(), os.statvfs(self._paths[pyfuse3.ROOT_INODE])
        for name in ("bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail"):
            setattr(told, f"f_{name}", getattr(found, f"f_{name}"))
        return told

    async def fsync(self, fh: Any, datasync: bool) -> None:
        pass

    async def fsyncdir(self, fh: Any, datasync: bool) -> None:
        pass

    async def flush(self, fh: Any) -> None:
        raise pyfuse3.FUSEError(errno.ENOSYS)  # the kernel asks no more: a process that ends would wait for it

    async def release(self, fh: Any) -> None:
        os.close(fh)


async def _serve() -> None:
    """No request is read and not answered while another task runs: none of the calls above waits for anything."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_when_told)
        await pyfuse3.main()
        nursery.cancel_scope.cancel()


async def _stop_when_told() -> None:
    with trio.open_signal_receiver(signal.SIGUSR1) as told:
        print("mounted", flush=True)
        async for _ in told:
            os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    pyfuse3.init(_PassesOn(sys.argv[1]), sys.argv[2], {*pyfuse3.default_options, "fsname=hanging"})
    trio.run(_serve)
    pyfuse3.close(unmount=False)
