"""The file system's calls, carried out. Needs pyfuse3 and trio."""

from __future__ import annotations

import errno
import os
import random
import stat
import time

import pyfuse3
import trio
from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.glob_patterns_and_file_trees.paths import CONTROL as CONTROL_NAME
from tfquiver.glob_patterns_and_file_trees.tree import CONTROL, NEXT, NEXT0, ROOT, FileTree
from tfquiver.mounting.killed_readers import KilledReaders, Process, process_of
from tfquiver.mounting.node_line import NodeLine
from tfquiver.mounting.open_shards import OpenShards
from tfquiver.mounting.read_plan import ReadPlan
from tfquiver.mounting.reading_ahead import next_names
from tfquiver.mounting.reading_ahead.ahead_places import AheadPlaces
from tfquiver.mounting.reading_ahead.parts_at_once import PartsAtOnce
from tfquiver.mounting.reading_ahead.read_ahead import ReadAhead
from tfquiver.stores.times import modified_ns

FOR_EVER_S = 3600.0 * 24 * 365  # names and sizes of a digest do not change
_AHEAD_AT_ONCE = 16
_SAID_EVERY_S = 10.0
_MOST_SAID = 1024
# Lists of what to read next, and what stands behind each name in them: a name may hold a newline, and no zero byte.
_LISTS = {NEXT: (b"next", "\n"), NEXT0: (b"next0", "\0")}
# There for who asks, and in no listing: programs take each directory that they see for a class of images.
_OWN = {(ROOT, CONTROL_NAME.encode()): CONTROL, **{(CONTROL, name): inode for inode, (name, _) in _LISTS.items()}}
_MOST_LISTS = 16  # open at the same time; of a million files each has tens of megabytes
# That wait, of those that the mount's process has under way at a time: names and sizes are told all the same.
MOST_CALLS, _MOST_WAITING = 10_000, 9_000
# Handles of lists, and of files that are read past the kernel's pages; those of other files are their numbers.
_OWN_FROM = 1 << 48
_MOST_LAST = 4096
_NOWHERE = (0, -1, 0, 0)
# That nothing is written the kernel sees to (`ro`), and what is copied with its modes (cp -a, rsync -a, tar) is its
# owner's to write to, and to delete.
_DIRECTORY_MODE, _FILE_MODE = 0o755, 0o644
# Of one read. Whatever else a call raises ends the mount for all; there may be neither memory nor threads for a moment.
_TROUBLE = (errors.TfquiverError, OSError, MemoryError, RuntimeError)


class Operations(pyfuse3.Operations):  # type: ignore[misc, unused-ignore]  # no types where pyfuse3 is not installed
    """Args:
    nursery: for what is fetched ahead.
    ahead_bytes: of each stream of reads.
    """

    supports_dot_lookup = False
    enable_writeback_cache = False

    def __init__(
        self,
        digest: Digest,
        tree: FileTree,
        line: NodeLine,
        shards: OpenShards,
        nursery: trio.Nursery,
        ahead_bytes: int,
    ) -> None:
        super().__init__()
        self._digest, self._tree, self._line, self._shards, self._nursery = digest, tree, line, shards, nursery
        self._lines: dict[int, bytes] = {}  # of lists that are open
        self._direct: dict[int, tuple[pyfuse3.FileHandleT, Process | None]] = {}  # past the kernel's pages: by whom
        self._killed = KilledReaders()
        nursery.start_soon(self._killed.run)
        self._opened = 0
        self._in_use = 0  # files and directories that are open, whoever has them open
        self._plan = ReadPlan(digest)
        self._read_last: dict[int, tuple[int, int, int, int]] = {}  # of files: a shard's range, the file's place, shard
        self._parts = PartsAtOnce()
        self._ahead = ReadAhead(ahead_bytes, lambda: shards.ahead_bytes)
        self._ahead_places = AheadPlaces(_AHEAD_AT_ONCE, self._ahead.under_way_bytes)
        self._mounted_ns = time.time_ns()
        self._owner = os.getuid(), os.getgid()
        self._waiting = 0  # reads
        self._said: dict[str, float] = {}  # when trouble with a file was told last

    async def lookup(
        self, parent_inode: pyfuse3.InodeT, name: pyfuse3.FileNameT, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        if (inode := _OWN.get((parent_inode, name))) is not None:
            return self._attributes(inode)
        try:
            found = self._tree.lookup(parent_inode, name.decode())
        except UnicodeDecodeError:
            found = None
        if found is None:
            raise pyfuse3.FUSEError(errno.ENOENT)
        return self._attributes(found.inode)

    async def getattr(self, inode: pyfuse3.InodeT, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        return self._attributes(inode)

    async def listxattr(self, inode: pyfuse3.InodeT, ctx: pyfuse3.RequestContext) -> list[pyfuse3.XAttrNameT]:
        """None. Not known, as the values still are, is a warning of tar's for each file; those the kernel asks
        for once, not with each file that `ls` lists."""
        return []

    async def opendir(self, inode: pyfuse3.InodeT, ctx: pyfuse3.RequestContext) -> pyfuse3.FileHandleT:
        if not self._tree.is_directory(inode) and inode != CONTROL:
            raise pyfuse3.FUSEError(errno.ENOTDIR)
        self._in_use += 1
        return pyfuse3.FileHandleT(inode)

    async def releasedir(self, fh: pyfuse3.FileHandleT) -> None:
        self._in_use -= 1

    async def readdir(self, fh: pyfuse3.FileHandleT, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        if fh == CONTROL:
            for after, (inode, (name, _)) in enumerate(_LISTS.items(), 1):
                if after > start_id and not pyfuse3.readdir_reply(token, name, self._attributes(inode), after):
                    return
            return
        for entry in self._tree.entries(fh, start_id):
            if not pyfuse3.readdir_reply(token, entry.name.encode(), self._attributes(entry.inode), entry.after):
                return

    async def open(self, inode: pyfuse3.InodeT, flags: pyfuse3.FlagT, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise pyfuse3.FUSEError(errno.EROFS)
        if inode in _LISTS:
            with self._killed.ends_with(process_of(ctx.pid)):
                opened = await self._open_next(*_LISTS[inode])
                self._in_use += 1
                return opened
            raise pyfuse3.FUSEError(errno.EINTR)
        file_index = self._tree.file_index(inode)
        if file_index is None:
            raise pyfuse3.FUSEError(errno.EISDIR)
        self._in_use += 1
        handle = pyfuse3.FileHandleT(file_index)
        if flags & os.O_DIRECT:
            handle = self._new_handle()
            self._direct[handle] = file_index, process_of(ctx.pid)
        return pyfuse3.FileInfo(fh=handle, keep_cache=True)

    async def read(self, fh: pyfuse3.FileHandleT, off: int, size: int) -> bytes:
        file_index, reader = fh, None
        if fh >= _OWN_FROM:
            if (lines := self._lines.get(fh)) is not None:
                return lines[off : off + size]
            file_index, reader = self._direct[fh]
        # pyfuse3 takes any buffer, and has sent it before another task is run.
        if (found := self._parts.find(file_index, off, size)) is not None:
            return found  # type: ignore[return-value]
        try:
            if reader is None:
                return await self._read(file_index, off, size)
            with self._killed.ends_with(reader):
                return await self._read(file_index, off, size)
        except _TROUBLE as error:
            self._say(self._digest.files[file_index].uri, error)
            raise pyfuse3.FUSEError(errno.EIO) from error
        raise pyfuse3.FUSEError(errno.EINTR)

    async def release(self, fh: pyfuse3.FileHandleT) -> None:
        self._in_use -= 1
        self._lines.pop(fh, None)
        self._direct.pop(fh, None)

    @property
    def is_in_use(self) -> bool:
        """Something is open."""
        return self._in_use > 0

    def _new_handle(self) -> pyfuse3.FileHandleT:
        self._opened += 1
        return pyfuse3.FileHandleT(_OWN_FROM + self._opened)

    async def _open_next(self, name: bytes, end: str) -> pyfuse3.FileInfo:
        """What is cached now is asked once for each opening; its reader sees one list."""
        if len(self._lines) >= _MOST_LISTS:
            raise pyfuse3.FUSEError(errno.EMFILE)
        handle = self._new_handle()
        self._lines[handle] = b""
        try:
            bitmap = await self._line.resident()
            cached = next_names.cached_files(self._plan, bitmap, len(self._digest.files))
            self._lines[handle] = await trio.to_thread.run_sync(
                next_names.lines, self._tree, cached, random.Random(), end
            )
        except _TROUBLE as error:
            del self._lines[handle]
            self._say(f"{CONTROL_NAME}/{name.decode()}", error)
            raise pyfuse3.FUSEError(errno.EIO) from error
        except BaseException:
            del self._lines[handle]
            raise
        return pyfuse3.FileInfo(fh=handle, direct_io=True)

    async def statfs(self, ctx: pyfuse3.RequestContext) -> pyfuse3.StatvfsData:
        told = pyfuse3.StatvfsData()
        told.f_bsize = told.f_frsize = 4096
        told.f_blocks = -(-self._digest.size_bytes // 4096)
        told.f_bfree = told.f_bavail = told.f_ffree = told.f_favail = 0
        told.f_files = len(self._tree)
        told.f_namemax = 255
        return told

    async def _read(self, file_index: int, offset: int, length_bytes: int) -> bytes:
        # Most reads go on in the shard that the last one of that file was in: to plan them anew costs as much as to
        # check their bytes.
        begin, end, position, shard = self._read_last.get(file_index, _NOWHERE)
        if begin <= offset and offset + length_bytes <= end:
            at_once = self._parts.length(file_index, offset, length_bytes, end - offset)
            self._fetch_ahead(position + offset, at_once)
            if at_once > length_bytes:
                room = self._parts.room(file_index)
                if (part := self._shards.read_now(shard, offset - begin, at_once, room)) is not None:
                    self._parts.keep(file_index, offset, part)
                    return part[:length_bytes]  # type: ignore[return-value]
        else:
            length_bytes = max(min(length_bytes, self._plan.size_bytes(file_index) - offset), 0)
            position = self._plan.position(file_index, 0)
            self._parts.length(file_index, offset, length_bytes, length_bytes)
            self._fetch_ahead(position + offset, length_bytes, 0 if offset else self._plan.size_bytes(file_index))
            pieces = list(self._plan.pieces(file_index, offset, length_bytes))
            if len(pieces) != 1:
                read = self._waited_for
                return b"".join([await read(piece.shard, piece.offset, piece.length_bytes) for piece in pieces])
            shard, begin = pieces[0].shard, offset - pieces[0].offset
            if len(self._read_last) >= _MOST_LAST:
                self._read_last.clear()
            self._read_last[file_index] = begin, begin + self._digest.lengths.item(shard), position, shard
        if (data := self._shards.read_now(shard, offset - begin, length_bytes)) is None:
            data = await self._waited_for(shard, offset - begin, length_bytes)
        return data  # type: ignore[return-value]

    async def _waited_for(self, shard: int, offset: int, length_bytes: int) -> memoryview:
        if self._waiting >= _MOST_WAITING:
            raise errors.ResourceExhaustedError(f"{_MOST_WAITING} reads wait already")
        self._waiting += 1
        try:
            return await self._shards.read(shard, offset, length_bytes)
        finally:
            self._waiting -= 1

    def _fetch_ahead(self, position: int, length_bytes: int, begun_bytes: int = 0) -> None:
        wanted = self._ahead.read(position, length_bytes, begun_bytes)
        if not wanted or self._line.gives_nothing:
            return
        self._ahead_places.resize(self._ahead.under_way_bytes)
        last = min(self._plan.shard_at(wanted.stop - 1), self._digest.num_shards - 1)
        for shard in range(self._plan.shard_at(wanted.start), last + 1):
            if shard not in self._shards:
                self._nursery.start_soon(self._prefetch, shard)

    async def _prefetch(self, shard: int) -> None:
        async with self._ahead_places.place(self._digest.lengths.item(shard)):
            if shard in self._shards:
                return
            try:
                await self._shards.get(shard)
            except _TROUBLE as error:  # whoever reads it is told
                logging.vlog(1, "ahead: %s", error)

    def _attributes(self, inode: int) -> pyfuse3.EntryAttributes:
        told = pyfuse3.EntryAttributes()
        told.st_ino = pyfuse3.InodeT(inode)
        told.entry_timeout = told.attr_timeout = FOR_EVER_S
        told.st_uid, told.st_gid = self._owner
        told.st_nlink = 1
        told.st_blksize = 1 << 17
        written_ns = self._mounted_ns
        file_index = self._tree.file_index(inode)
        if file_index is not None:
            told.st_mode = pyfuse3.ModeT(stat.S_IFREG | _FILE_MODE)
            told.st_size = self._digest.files[file_index].size_bytes
            told.st_blocks = -(-told.st_size // 512)
            written_ns = modified_ns(self._digest.files[file_index])
        elif inode in _LISTS:
            told.st_mode = pyfuse3.ModeT(stat.S_IFREG | _FILE_MODE)
        elif self._tree.is_directory(inode) or inode == CONTROL:
            told.st_mode = pyfuse3.ModeT(stat.S_IFDIR | _DIRECTORY_MODE)
            told.st_nlink = 2
        else:
            raise pyfuse3.FUSEError(errno.ENOENT)
        told.st_mtime_ns = told.st_ctime_ns = told.st_atime_ns = written_ns
        return told

    def _say(self, uri: str, error: Exception) -> None:
        """Why it is EIO, once in a while for each file."""
        now_s = time.monotonic()
        if now_s - self._said.get(uri, -_SAID_EVERY_S) < _SAID_EVERY_S:
            return
        if len(self._said) >= _MOST_SAID:
            self._said.clear()
        self._said[uri] = now_s
        logging.error("%s: EIO: %s", uri, error)
