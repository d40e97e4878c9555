"""Readers of other users: a group of this machine that may use the node, and may change nothing of what it keeps.

The group may pass through the directories to `node.json` and the sockets; all else there stays this user's alone.
"""

from __future__ import annotations

import grp
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from tfquiver import errors


@dataclass(frozen=True, slots=True)
class ReaderGroup:
    """`flag`: as it was given, for messages."""

    gid: int
    flag: str

    @classmethod
    def of(cls, text: str) -> ReaderGroup:
        """A group's name or number. Raises InvalidArgumentError naming the flag."""
        flag = f"--reader_group={text}"
        try:
            gid = int(text) if text.isdecimal() else grp.getgrnam(text).gr_gid
        except (KeyError, ValueError, OverflowError) as error:
            raise errors.InvalidArgumentError(f"{flag}: this machine has no such group") from error
        if not 0 <= gid < 1 << 32:
            raise errors.InvalidArgumentError(f"{flag}: not the number of a group")
        if os.geteuid() != 0 and gid not in (os.getegid(), *os.getgroups()):
            raise errors.InvalidArgumentError(f"{flag}: the user that this node runs as must be in that group")
        return cls(gid, flag)

    def let_through(self, directory: Path) -> None:
        """Who is in the group may reach what lies in the directory, if they know its name. Raises PermissionError_."""
        status = directory.stat()
        theirs = stat.S_IXGRP if status.st_gid == self.gid else stat.S_IXOTH
        if not status.st_mode & theirs:
            self._give(directory, stat.S_IMODE(status.st_mode) & ~0o070 | stat.S_IXGRP)

    def let_use(self, path: Path) -> None:
        """A socket may be connected to, a file be read. Raises PermissionError_."""
        self._give(path, 0o660 if stat.S_ISSOCK(path.stat().st_mode) else 0o640)

    def _give(self, path: Path, mode: int) -> None:
        try:
            os.chown(path, -1, self.gid)
            path.chmod(mode)
        except OSError as error:
            raise errors.PermissionError_(f"{self.flag}: {path} cannot be opened to it: {error.strerror}") from error
