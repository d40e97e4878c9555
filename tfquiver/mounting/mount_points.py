"""Where data sets are mounted on this machine, as the kernel says; what can be mounted on; mounts taken away."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfquiver import errors
from tfquiver.durable import try_lock
from tfquiver.plain_text import for_shell, plain, shortened

TYPE = "fuse.tfquiver"
# What pip builds pyfuse3 from, and what users who are not root mount by.
INSTALL = "apt-get install gcc pkg-config libfuse3-dev python3-dev fuse3"
DEVICE = Path("/dev/fuse")
FUSE_CONF = Path("/etc/fuse.conf")
MOUNTS = Path("/proc/self/mountinfo")
_STATUS = Path("/proc/self/status")
_CAP_SYS_ADMIN = 1 << 21
_ANSWERS_S = 2.0
_MOST_LINKS = 40  # that one leads to another, as the kernel has it
_UNMOUNT_S = 20.0
_HIDDEN = re.compile(r"\\([0-7]{3})")
_DEAD = (errno.ENOTCONN, errno.ECONNABORTED)


@dataclass(frozen=True, slots=True)
class Mount:
    """`name`: of the data set; `device`: the kernel's number of it, as of no other while it is mounted anywhere."""

    path: str
    name: str
    device: str = ""


def mounts(mountinfo: str | None = None) -> list[Mount]:
    """Of this process's view of the machine, in the order in which they were made."""
    if mountinfo is None and not MOUNTS.exists():  # no Linux
        return []
    # Blanks, tabs, newlines and backslashes are written otherwise; whatever else ends lines stands there as it is.
    text = os.fsdecode(MOUNTS.read_bytes()) if mountinfo is None else mountinfo
    found = []
    for line in text.split("\n"):
        before, _, after = line.partition(" - ")
        fields, what = before.split(" "), after.split(" ")
        if len(fields) > 4 and len(what) > 1 and what[0] == TYPE:
            found.append(Mount(_shown(fields[4]), _shown(what[1]), fields[2]))
    return found


def fs_name(dataset: str) -> str:
    """What a mount of that data set is called: the kernel takes a few characters only."""
    return "".join(letter if letter.isalnum() or letter in "-_./" else "_" for letter in plain(dataset)) or "_"


def at(path: Path) -> Mount | None:
    """The data set that is mounted there; the uppermost one."""
    return next((mount for mount in reversed(mounts()) if mount.path == str(path)), None)


def is_seen_elsewhere(mount: Mount) -> bool:
    """By a process with mounts of its own; one that may not be looked at does not count."""
    device = f" {mount.device} ".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if any(device in line.partition(b" - ")[0] for line in (process / "mountinfo").read_bytes().split(b"\n")):
                return True
    return False


def trouble(mount: Mount) -> str:
    """What is wrong with it; "": it answers. Never waits longer than a few seconds for it."""
    said: list[str] = []

    def look() -> None:
        try:
            os.statvfs(mount.path)
            said.append("")
        except OSError as error:
            said.append("stale" if error.errno in _DEAD else str(error.strerror))

    thread = threading.Thread(target=look, name="look at a mount", daemon=True)
    thread.start()
    thread.join(_ANSWERS_S)
    return said[0] if said else "does not answer"


def resolved(given: str | os.PathLike[str]) -> Path:
    """The mount point's real path, as the kernel tells it. What is mounted there is not asked: it may be stale, or
    hang; to read a link asks nobody but where it stands. Raises InvalidArgumentError."""
    path = Path(os.path.abspath(Path(given).expanduser()))  # noqa: PTH100 - resolve() would look at the point itself
    try:
        for _ in range(_MOST_LINKS):
            path = path.parent.resolve() / path.name if path.name else path
            if (leads_to := _link(path)) is None:
                return path
            path = path.parent / leads_to
            path = path.resolve() if path.name == ".." else path
    except (OSError, RuntimeError) as error:  # the latter: links that lead to themselves
        why = os.strerror(errno.ELOOP) if isinstance(error, RuntimeError) else error.strerror
        raise errors.InvalidArgumentError(f"mount point {shortened(str(given))}: {why}") from error
    raise errors.InvalidArgumentError(f"mount point {shortened(str(given))}: {os.strerror(errno.ELOOP)}")


def _link(path: Path) -> str | None:
    """What a symbolic link says; None: there is none."""
    try:
        return str(path.readlink())
    except OSError:
        return None


def prepare(given: str | os.PathLike[str], cache_dir: Path, allow_other: bool = False) -> tuple[Path, bool]:
    """An empty directory to mount on, and whether a stale mount was taken away from it. Files may be scanned for hours
    between this and the mount, so what it would be refused for is looked for here.

    Raises InvalidArgumentError (no directory, not empty), AlreadyRunningError (in use), PermissionError_,
    NotFoundError (no /dev/fuse, no fusermount3), each with what to do.
    """
    _check_device()
    if helped := not _mounts_itself():
        _check_helper(allow_other)
    path, was_stale = resolved(given), False
    if resolved(cache_dir).is_relative_to(path):
        raise errors.InvalidArgumentError(
            f"mount point {path}: the cache directory is in it, which would be hidden; give another directory"
        )
    while (mount := at(path)) is not None:
        wrong = trouble(mount)
        if wrong != "stale":
            raise _mounted_already(mount, f", which {wrong}" if wrong else "")
        unmount(path, lazy=True)
        was_stale = True
    try:
        if any(path.iterdir()):
            raise errors.InvalidArgumentError(f"mount point {path}: not empty; give an empty directory")
    except NotADirectoryError as error:
        raise errors.InvalidArgumentError(f"mount point {path}: not a directory") from error
    except FileNotFoundError as error:
        raise errors.InvalidArgumentError(
            f"mount point {path}: no such directory; `mkdir -p {for_shell(path)}` makes it"
        ) from error
    except OSError as error:
        raise errors.from_os_error(error, f"mount point {path}") from error
    if path.is_mount():
        raise errors.AlreadyRunningError(f"mount point {path}: another file system is mounted there")
    if helped and not os.access(path, os.W_OK):
        raise errors.PermissionError_(
            f"mount point {path}: this user may not write there, and who is not root mounts only where that is so; "
            "give a directory of this user's"
        )
    return path, was_stale


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """While it is mounted on: others may have looked at it as long ago, and the kernel lets one mount cover another.

    Raises AlreadyRunningError: somebody has mounted there meanwhile, or is about to. OSError: it is gone.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not try_lock(descriptor):
            raise errors.AlreadyRunningError(f"mount point {path}: another process mounts there just now")
        if (mount := at(path)) is not None:
            raise _mounted_already(mount)
        yield
    finally:
        os.close(descriptor)


def _mounted_already(mount: Mount, answers: str = "") -> errors.TfquiverError:
    return errors.AlreadyRunningError(
        f"mount point {mount.path}: {mount.name} is mounted there already{answers}; "
        f"`tfquiver unmount {for_shell(mount.path)}` takes it away"
    )


def unmount(given: str | os.PathLike[str], lazy: bool = False) -> Mount:
    """Takes the mount away, also a stale one. `lazy`: also while it is used; it is gone when its last user is.

    Raises NotFoundError (no data set is mounted there), InUseError (with what to do), PermissionError_,
    UnavailableError.
    """
    path = resolved(given)
    if (mount := at(path)) is None:
        known = ", ".join(one.path for one in mounts())
        elsewhere = f"; there are {known}" if known else ", nor elsewhere on this machine"
        raise errors.NotFoundError(f"{path}: no data set is mounted there{elsewhere}")
    tool = shutil.which("fusermount3") or shutil.which("fusermount")
    if os.geteuid() == 0:
        command = ["umount", *(["-l"] if lazy else []), str(path)]
    elif tool:
        command = [tool, "-u", *(["-z"] if lazy else []), str(path)]
    else:
        raise errors.NotFoundError("fusermount3 is missing: apt-get install fuse3")
    try:
        # What it says is looked at, and told in English as all else.
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_UNMOUNT_S, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except subprocess.TimeoutExpired as error:
        raise errors.UnavailableError(f"{path}: unmounting does not end; try --lazy") from error
    if done.returncode and at(path) is not None:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        if "busy" in said:
            if not lazy and trouble(mount) == "stale":  # who has files open there can do nothing with them
                return unmount(path, lazy=True)
            raise errors.InUseError(f"{path}: in use: end what reads there (`fuser -m {path}` names it), or --lazy")
        raise _hindered(path, said)
    return mount


def _hindered(path: Path, said: str) -> errors.TfquiverError:
    """`said`: by umount or fusermount3, why not."""
    if "not permitted" in said or "denied" in said or "not allowed" in said or "superuser" in said:
        return errors.PermissionError_(f"{path}: {said}")
    if "/etc/mtab: No such file" in said:  # by which fusermount3 knows what is whose; bare roots have none
        return errors.NotFoundError(f"{path}: {said}; as root: `ln -s /proc/self/mounts /etc/mtab`, then again")
    return errors.UnavailableError(f"{path}: {said}")


def _check_device() -> None:
    if not DEVICE.exists():
        raise errors.NotFoundError(
            f"{DEVICE} is missing: `modprobe fuse`, or in a container run it with --device={DEVICE} and CAP_SYS_ADMIN"
        )
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        raise errors.PermissionError_(f"{DEVICE}: this user may not open it; `chmod 666 {DEVICE}` as root lets all")


def _mounts_itself() -> bool:
    """Who may not asks fusermount3, which is root's, and has rules of its own."""
    if os.geteuid() == 0:
        return True
    try:
        found = re.search(r"^CapEff:\s*([0-9a-f]+)$", _STATUS.read_text(), re.MULTILINE)
    except OSError:  # no Linux
        return False
    return found is not None and bool(int(found[1], 16) & _CAP_SYS_ADMIN)


def _check_helper(allow_other: bool) -> None:
    if not shutil.which("fusermount3"):
        raise errors.NotFoundError("fusermount3, by which users who are not root mount: apt-get install fuse3")
    if not allow_other:
        return
    try:
        lines = FUSE_CONF.read_text(errors="replace").splitlines()
    except OSError:  # it may be elsewhere: libfuse finds it
        return
    if "user_allow_other" not in (line.partition("#")[0].strip() for line in lines):
        raise errors.PermissionError_(
            f"--allow_other: {FUSE_CONF} does not let users who are not root have it; as root: `echo user_allow_other "
            f">> {FUSE_CONF}`"
        )


def _shown(text: str) -> str:
    """The kernel writes blanks and such as octal numbers."""
    return _HIDDEN.sub(lambda found: chr(int(found[1], 8)), text)
