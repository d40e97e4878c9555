"""The op for a TensorFlow that no library of the package fits: compiled where it is used, once, and kept for the user.

It is kept in $XDG_CACHE_HOME/tfquiver/ops (~/.cache/tfquiver/ops), never in the package, which may be read-only,
shared, or replaced by another version. The folder's name follows from all that the library depends on.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tfquiver.ops.compiling_and_loading import build, tensorflows
from tfquiver.ops.compiling_and_loading.tensorflows import TensorFlow

_SAID_EVERY_S = 10.0
_ELF_BYTES = 64  # of the header of a 64-bit one
_SECTIONS = (slice(40, 48), slice(58, 60), slice(60, 62))  # where the table is, bytes of an entry, entries


def libraries(targets: Sequence[TensorFlow], anew: bool = False) -> list[Path]:
    """Of each target, and the reader library; says which are there already. Arguments and errors as `library`."""
    for target in [] if anew else [*targets, None]:
        if _is_whole(path := _path(target)):
            what = f"op for TensorFlow {target.version}" if target else "reader"
            _say(f"the {what} is there already: {path} (--anew: compile it again)")
    made = [library(target, anew, reader=True) for target in targets]
    return [*made, library(None, anew and not targets)]


def _path(target: TensorFlow | None) -> Path:
    return _directory() / _key(target) / (tensorflows.library_name(target.version) if target else build.READER)


def library(target: TensorFlow | None, anew: bool = False, reader: bool = False) -> Path:
    """The path of this user's library for `target`; compiles it when there is none, while other processes wait.

    Args:
      target: None: the reader library, which is for no TensorFlow.
      anew: compiles also when there is one.
      reader: where it compiles for a TensorFlow, the reader library, too: nearly all of it is compiled then.

    Raises build.BuildError, and OSError naming the directory when it cannot be written or is somebody else's.
    """
    path = _path(target)
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_own(folder)
    if not anew and _is_whole(path):
        return path
    with (folder / "lock").open("w") as lock:
        and_reader = " and reader" if reader else ""
        what = f"op for TensorFlow {target.version}{and_reader}: a few minutes" if target else "reader: a minute"
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another process compiles tfquiver's {what}, once (in {folder}): waiting for it")
            with _said_again("waiting for the process that compiles"):
                fcntl.flock(lock, fcntl.LOCK_EX)  # its compilers have deadlines
        if not anew and _is_whole(path):
            return path
        for left_over in folder.glob("tmp*"):  # of a process that was killed
            shutil.rmtree(left_over, ignore_errors=True)
        _say(f"compiling tfquiver's {what}, once (kept in {folder})")
        with _said_again("compiling"):
            made = build.build([target] if target else [], folder, reader=reader or target is None)
    if target is not None and reader:
        others = _directory() / _key(None)
        others.mkdir(mode=0o700, exist_ok=True)
        _check_own(others)
        made[-1].replace(others / build.READER)
    return made[0]


def _is_whole(path: Path) -> bool:
    """False: it is not there, or its end is not, as where a disk was full or the power cut: to load the rest of it may
    end the process. Linkers put the table of sections, of which the header tells, at the end."""
    try:
        with path.open("rb") as file:
            header, size_bytes = file.read(_ELF_BYTES), os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return False
    at, entry_bytes, entries = (int.from_bytes(header[part], sys.byteorder) for part in _SECTIONS)
    return len(header) == _ELF_BYTES and header.startswith(b"\x7fELF\x02") and at + entry_bytes * entries <= size_bytes


@contextmanager
def _said_again(what: str) -> Iterator[None]:
    """Of what takes minutes on a busy machine: now and then, for how long already."""
    over, began_s = threading.Event(), time.monotonic()

    def say() -> None:
        while not over.wait(_SAID_EVERY_S):
            _say(f"still {what}, for {time.monotonic() - began_s:.0f} s now")

    saying = threading.Thread(target=say, name="tfquiver-compiling", daemon=True)
    saying.start()
    try:
        yield
    finally:
        over.set()
        saying.join()


def _say(line: str) -> None:
    """To the person who has started this: no server's log line, and no warning."""
    print(f"tfquiver: {line}", file=sys.stderr, flush=True)


def _directory() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        try:
            cache = Path.home() / ".cache"
        except RuntimeError as error:
            raise FileNotFoundError("this user has no home directory") from error
    return cache / "tfquiver" / "ops"


def _check_own(folder: Path) -> None:
    """What lies there is run by this process."""
    about = folder.stat()
    if about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise PermissionError(f"{folder}: others than this user may write there; say where else in XDG_CACHE_HOME")


def _key(target: TensorFlow | None) -> str:
    """A home may be shared by machines of several kinds, and serve several versions of everything."""
    flags = [flag for flag in target.compile_flags if not flag.startswith("-I")] if target else []
    whose = [target.version, target.built_by] if target else [build.READER]
    about = [*whose, platform.machine(), *platform.libc_ver(), *flags, *build.compiler()]
    digest = hashlib.sha256("\0".join(about).encode())
    code = [
        *build.OPS.rglob("*.cc"),
        *build.OPS.rglob("*.h"),
        *build.OPS.glob("*.lds"),
        *(build.OPS / "library").glob("*.py"),
    ]
    for path in sorted(code):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
