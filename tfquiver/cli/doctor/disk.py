"""A cache directory, and the disk that it is on."""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from tfquiver.cli.doctor import endurance, wear
from tfquiver.cli.doctor.finding import Finding, fail, ok, skip, warn
from tfquiver.plain_text import plain
from tfquiver.service.node.counters import totals_file
from tfquiver.sizes_durations_amounts.amounts import of_bytes, of_rate

_TRIAL_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_SLOW_BYTES_PER_S = 100e6
_LEAST_FREE_BYTES = 1 << 30
MOUNTS = Path("/proc/self/mounts")
_TRIAL_NAME = ".doctor-trial"
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "fuse.gcsfuse", "fuse.s3fs", "fuse.sshfs", "lustre", "ceph", "9p")


def missing(directory: Path) -> Finding | None:
    """What it is instead of a directory of which something can be found; None: it is one."""
    what = f"cache directory {plain(directory, 300)}"
    try:
        info = directory.stat()
    except FileNotFoundError:
        do = (
            "the first job (tfquiver.dataset(..., cache_dir=)) or server (`tfquiver up`) that uses it makes it; else "
            "name another one, or a coordinator's host:port"
        )
        return fail(what, "there is no such directory", do)
    except (OSError, ValueError) as error:  # a name with a zero byte, for one
        why = getattr(error, "strerror", "") or str(error)
        return fail(what, why, "name a directory that this user may look at, or a coordinator's host:port")
    if not stat.S_ISDIR(info.st_mode):
        return fail(what, "it is a file", "name a directory, or a coordinator's host:port")
    return None


def findings(directory: Path, quota_bytes: int = 0, used_bytes: int = 0) -> Iterator[Finding]:
    """`quota_bytes`: of the node that runs there; 0: none does."""
    if trouble := missing(directory):
        yield trouble
        return
    yield _modes(f"cache directory {plain(directory, 300)}", directory.stat())
    yield _kind(directory)
    yield _room(directory, quota_bytes, used_bytes)
    yield _speed(directory)
    yield _endurance(directory)


def _modes(what: str, info: os.stat_result) -> Finding:
    if info.st_mode & 0o022:
        do = "chmod go-w: whoever writes there can have the node read their files"
        return warn(what, f"mode {stat.S_IMODE(info.st_mode):o}: others may write in it", do)
    return ok(what, f"only its owner, {_user(info.st_uid)}, may write in it (mode {stat.S_IMODE(info.st_mode):o})")


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _kind(directory: Path) -> Finding:
    what = "its disk"
    device, kind = _mounted(directory)
    if not kind:
        do = "nothing, where you know that it is a local SSD; else look from outside the chroot"
        return skip(what, "cannot be seen from here: no mount is listed that the directory is in, as in a chroot", do)
    if kind in _NETWORK:
        return warn(
            what, f"{kind} ({device})", "use a local SSD: a cache on the network saves the store, not the network"
        )
    if kind in ("tmpfs", "ramfs"):
        return warn(what, f"{kind}: what is cached takes memory, and is lost with the machine", "use a local SSD")
    if device.startswith("/dev/sd") and _rotates(directory):  # virtual disks say so, too, whatever they are made of
        do = "use an SSD: many jobs read many small files in random order here"
        return warn(what, f"{kind} on {device}, which rotates", do)
    return ok(what, f"{kind} on {device}")


def _mounted(directory: Path) -> tuple[str, str]:
    """(what is mounted there, of which kind); of several mounts the innermost, of these the last; "": none."""
    resolved, best = str(directory.resolve()), ("", "", "")
    for line in MOUNTS.read_text(errors="replace").splitlines():
        device, place, kind = line.split(" ")[:3]
        place = place.replace("\\040", " ")
        inside = resolved == place or resolved.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best[0]):
            best = (place, device, kind)
    return best[1], best[2]


def _rotates(directory: Path) -> bool:
    device = directory.stat().st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    for queue in (block / "queue", block.resolve().parent / "queue"):
        with contextlib.suppress(OSError):
            return (queue / "rotational").read_text().strip() == "1"
    return False


def _room(directory: Path, quota_bytes: int, used_bytes: int) -> Finding:
    what = "room"
    found = os.statvfs(directory)
    free_bytes = found.f_bavail * found.f_frsize
    still = quota_bytes - used_bytes
    if still > free_bytes:
        do = "give less --quota, or make room: until then inserts are refused and the rest is read from the store"
        return warn(what, f"{of_bytes(still)} of the quota are still to come, and {of_bytes(free_bytes)} are free", do)
    if free_bytes < _LEAST_FREE_BYTES:
        return warn(what, f"{of_bytes(free_bytes)} are free", "make room, or name a directory on a larger disk")
    quota = f"; quota {of_bytes(quota_bytes)}, of which {of_bytes(used_bytes)} are used" if quota_bytes else ""
    return ok(what, f"{of_bytes(free_bytes)} are free{quota}")


def _endurance(directory: Path) -> Finding:
    device, kind = _mounted(directory)
    disk = wear.disk_of(directory, device)
    if disk is None:
        where = f"{kind} on {device}" if kind else "the directory"
        why = f"cannot be seen from here: {where} is on no disk of this machine that the kernel names"
        return skip(endurance.WHAT, why, "nothing, where it is in memory or in a container; else look on its host")
    if not disk.virtual and disk.wear is None and _rotates(directory):
        return ok(endurance.WHAT, f"{disk.name} is a hard disk, which writes do not wear")
    counted = totals_file.read(directory)
    seconds = time.time() - counted.written_since_s
    known = counted.written_since_s > 0 and seconds > 0
    return endurance.judge(disk, endurance.Written(counted.written_bytes, seconds) if known else None)


def _speed(directory: Path) -> Finding:
    """Writes a file as an insert is written, synced. Reads are not tried: what was just written is in memory."""
    what, trial = "speed", directory / _TRIAL_NAME
    piece = os.urandom(_PIECE_BYTES)
    found = os.statvfs(directory)
    if found.f_bavail * found.f_frsize < 4 * _TRIAL_BYTES:
        return warn(what, "not tried: too little is free", "make room")
    began_s = time.perf_counter()
    try:
        descriptor = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            for _ in range(_TRIAL_BYTES // _PIECE_BYTES):
                os.write(descriptor, piece)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return fail(what, f"cannot write there: {error.strerror}", "run as the node's user, or look at mount and disk")
    finally:
        with contextlib.suppress(OSError):
            trial.unlink()
    rate = _TRIAL_BYTES / (time.perf_counter() - began_s)
    if rate < _SLOW_BYTES_PER_S:
        return warn(what, f"writes at {of_rate(rate)}", "first epochs wait for this disk: use a faster one")
    return ok(what, f"writes at {of_rate(rate)}")
