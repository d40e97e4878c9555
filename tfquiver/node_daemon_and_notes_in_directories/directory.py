"""The cache directory: locked for one daemon, and the small files that tell who it is and where it is.

`node.lock` (held with flock, its text the pid), `node_id`, `node.json` (docs/protocol.md), `run/` (sockets). What is
made is this user's alone; what is there already stays as it is, and links that somebody has put there are not followed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from absl import logging

from tfquiver import durable, errors
from tfquiver.node_daemon_and_notes_in_directories import logged_to, up_file

NODE_FILE = "node.json"
NODE_FILE_VERSION = 1
MAX_SOCKET_PATH_BYTES = 100  # sockaddr_un takes 107
_LONGEST_SOCKET_NAME = "coordinator.sock"
_LOCK_FILE = "node.lock"
_LOCK_S = 0.3
_MAX_ID_BYTES = 200
_ID = re.compile("[!-~]+")


class CacheDirectory:
    """Holds the directory until `close`. Every call may wait for the disk.

    Raises:
      InvalidArgumentError: it cannot be made or written, or a link is in the place of a file.
      AlreadyRunningError: another node holds it; names its pid.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.shown = str(self.path).encode(errors="replace").decode()  # a name on a disk need not be text
        self._announced = False
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = self._take_lock()
            try:
                self.node_id = self._read_or_make_node_id()
                self.sockets = self._socket_directory()
            except BaseException:
                os.close(self._lock)
                raise
        except OSError as error:
            where = f" ({error.filename})" if error.filename not in (None, str(self.path)) else ""
            is_link = error.errno == errno.ELOOP
            what = "a symbolic link is in the way" if is_link else durable.why_not_made(self.path, error)
            raise errors.InvalidArgumentError(f"--cache_dir={self.path}: {what}{where}") from error

    def made(self, name: str) -> Path:
        """A directory of that name in this one. Raises the typed error of one that cannot be made or is a link."""
        path = self.path / name
        try:
            durable.private_directory(path)
        except OSError as error:
            raise errors.from_os_error(error, str(path)) from error
        return path

    def announce(self, **fields: Any) -> None:
        """Writes node.json: from now on others find this node. Raises the typed error of a failed write."""
        body = {"version": NODE_FILE_VERSION, "pid": os.getpid(), "node_id": self.node_id, **fields}
        path = self.path / NODE_FILE
        try:
            durable.write(path, [json.dumps(body).encode() + b"\n"])
        except OSError as error:
            raise errors.from_os_error(error, str(path)) from error
        self._announced = True

    def what_is_lost(self) -> str:
        """Empty; or which file somebody has deleted or replaced without which nobody finds this node, or another node
        takes the directory. A disk that does not say counts as none."""
        with contextlib.suppress(OSError):
            try:
                if not os.path.samestat(os.fstat(self._lock), (self.path / _LOCK_FILE).lstat()):
                    return _LOCK_FILE
                if self._announced:
                    (self.path / NODE_FILE).lstat()
                    (self.sockets / "reader.sock").lstat()
            except (FileNotFoundError, NotADirectoryError) as error:
                return Path(error.filename or _LOCK_FILE).name
        return ""

    def close(self) -> None:
        """Removes what leads to this node, unless the directory is another's by now."""
        try:
            if self.what_is_lost() != _LOCK_FILE:
                (self.path / NODE_FILE).unlink(missing_ok=True)
                for left_over in self.sockets.glob("*.sock"):
                    left_over.unlink(missing_ok=True)
                if self.sockets.parent != self.path:
                    with contextlib.suppress(OSError):  # not empty: somebody else's
                        self.sockets.rmdir()
        except OSError as error:
            logging.warning("%s: leaving: %s", self.path, error)
        os.close(self._lock)

    def _take_lock(self) -> int:
        lock = durable.lock_file(self.path / _LOCK_FILE)
        try:
            give_up_at = time.monotonic() + _LOCK_S
            while not durable.try_lock(lock):
                # Somebody may just be looking whether it is held; a node that holds it does so for longer.
                if time.monotonic() < give_up_at:
                    time.sleep(_LOCK_S / 10)
                    continue
                holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
                raise errors.AlreadyRunningError(
                    f"--cache_dir={self.path}: the node with pid {holder} has it; a directory is one node's"
                )
            if not os.path.samestat(os.fstat(lock), (self.path / _LOCK_FILE).lstat()):
                raise errors.AlreadyRunningError(f"--cache_dir={self.path}: somebody is deleting it")
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            # A node that was killed left these; nobody may find it any more.
            (self.path / NODE_FILE).unlink(missing_ok=True)
            durable.remove_left_overs(self.path, but=up_file.UP_FILE)  # which `up` may be writing
            logged_to.write(self.path)
        except BaseException:
            os.close(lock)
            raise
        return lock

    def _read_or_make_node_id(self) -> str:
        path = self.path / "node_id"
        with contextlib.suppress(FileNotFoundError):
            known = durable.read(path, _MAX_ID_BYTES).decode("ascii", "replace").strip()
            if _ID.fullmatch(known):
                return known
            logging.warning("%s: no id of a node is in it: this node begins with another one", path)
        made = f"node-{uuid.uuid4().hex[:16]}"
        durable.write(path, [made.encode() + b"\n"])
        return made

    def _socket_directory(self) -> Path:
        inside = self.path / "run"
        if _can_have_sockets(inside):
            return _private(inside)
        name = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        # A batch system's TMPDIR may be as long as the cache directory itself.
        places = [Path(parent) / f"tfquiver-{os.geteuid()}-{name}" for parent in (tempfile.gettempdir(), "/tmp")]
        return _private(next(filter(_can_have_sockets, places)))


def node_id_in(directory: Path) -> str:
    """Of the node whose directory it is; "": there is none yet, or none on this machine."""
    try:
        return durable.read(directory / "node_id", _MAX_ID_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _can_have_sockets(path: Path) -> bool:
    """The kernel takes no longer names, gRPC none that are not UTF-8, and parts them at commas, as of
    `lr=0.1,batch=64`."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return len(os.fsencode(path / _LONGEST_SOCKET_NAME)) <= MAX_SOCKET_PATH_BYTES and "," not in str(path)


def _private(path: Path) -> Path:
    """Whoever can write there could take this node's place: it must be this user's alone."""
    durable.private_directory(path)
    status = path.lstat()
    if status.st_uid != os.geteuid():
        raise errors.InvalidArgumentError(f"{path}: it must be a directory of this user; somebody else made it")
    if stat.S_IMODE(status.st_mode) & 0o077:
        path.chmod(0o700)
    for left_over in path.glob("*.sock"):
        left_over.unlink()
    return path
