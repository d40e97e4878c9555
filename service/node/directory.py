"""The cache directory: made private, locked for one daemon, and the small files that tell who it is and where it is.

`node.lock` (held with flock, its text the pid), `node_id`, `node.json` (docs/protocol.md), `run/` (sockets).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import tempfile
import time
import uuid
from pathlib import Path
from typing import IO, Any

from tfquiver import errors

NODE_FILE = "node.json"
NODE_FILE_VERSION = 1
MAX_SOCKET_PATH_BYTES = 100  # sockaddr_un takes 107
_LONGEST_SOCKET_NAME = "coordinator.sock"
_LOCK_S = 0.3


class CacheDirectory:
    """Holds the directory until `close`.

    Raises:
      InvalidArgumentError: it cannot be made or written.
      AlreadyRunningError: another node holds it; names its pid.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = self._take_lock()
            try:
                self.node_id = self._read_or_make_node_id()
                self.sockets = self._socket_directory()
            except BaseException:
                self._lock.close()
                raise
        except OSError as error:
            raise errors.InvalidArgumentError(f"--cache_dir={self.path}: {error.strerror}") from error

    def announce(self, **fields: Any) -> None:
        """Writes node.json: from now on others find this node."""
        temporary = self.path / f"{NODE_FILE}.part"
        body = {"version": NODE_FILE_VERSION, "pid": os.getpid(), "node_id": self.node_id, **fields}
        temporary.write_text(json.dumps(body) + "\n")
        temporary.rename(self.path / NODE_FILE)

    def close(self) -> None:
        (self.path / NODE_FILE).unlink(missing_ok=True)
        for left_over in self.sockets.glob("*.sock"):
            left_over.unlink(missing_ok=True)
        if self.sockets.parent != self.path:
            with contextlib.suppress(OSError):  # not empty: somebody else's
                self.sockets.rmdir()
        self._lock.close()

    def _take_lock(self) -> IO[str]:
        lock = (self.path / "node.lock").open("a+")
        give_up_at = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # Somebody may just be looking whether it is held; a node that holds it does so for longer.
                if time.monotonic() < give_up_at:
                    time.sleep(_LOCK_S / 10)
                    continue
                lock.seek(0)
                holder = lock.read(20).strip() or "unknown"
                lock.close()
                raise errors.AlreadyRunningError(
                    f"--cache_dir={self.path}: the node with pid {holder} has it; a directory is one node's"
                ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        # A node that was killed left these; nobody may find it any more.
        (self.path / NODE_FILE).unlink(missing_ok=True)
        return lock

    def _read_or_make_node_id(self) -> str:
        path = self.path / "node_id"
        if path.exists() and (known := path.read_text().strip()):
            return known
        made = f"node-{uuid.uuid4().hex[:16]}"
        temporary = path.with_suffix(".part")
        temporary.write_text(made + "\n")
        temporary.rename(path)
        return made

    def _socket_directory(self) -> Path:
        inside = self.path / "run"
        if len(os.fsencode(inside / _LONGEST_SOCKET_NAME)) <= MAX_SOCKET_PATH_BYTES:
            return _private(inside)
        name = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        # A batch system's TMPDIR may be as long as the cache directory itself.
        places = [Path(parent) / f"tfquiver-{os.geteuid()}-{name}" for parent in (tempfile.gettempdir(), "/tmp")]
        short = [at for at in places if len(os.fsencode(at / _LONGEST_SOCKET_NAME)) <= MAX_SOCKET_PATH_BYTES]
        return _private(short[0])


def _private(path: Path) -> Path:
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise errors.InvalidArgumentError(f"{path}: it must be a directory of this user; somebody else made it")
    path.chmod(0o700)
    for left_over in path.glob("*.sock"):
        left_over.unlink()
    return path
