"""Whether `tfquiver stop --yes` may take the only node that runs here, which nobody has named, for the caller's."""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Callable
from pathlib import Path

from tfquiver import errors
from tfquiver.local_cluster import stopping
from tfquiver.node_daemon_and_notes_in_directories import server_file, up_file
from tfquiver.plain_text import plain, shortened
from tfquiver.sizes_durations_amounts.amounts import many

_BY_DATASET = "--idle_exit_s"  # whoever else starts a node lets it stay


def check(at: Path, readers: Callable[[], int]) -> None:
    """Several people may work under one name, and a script may have been written when another node was the only one.

    `readers`: how many are connected. Raises InvalidArgumentError: it may be somebody else's, or is used.
    """
    if why := _why_not(at, readers):
        raise errors.InvalidArgumentError(
            f"stop: what runs in {plain(at)} is not stopped without being named: {why}. If it is the one that you "
            f"mean: tfquiver stop {shlex.quote(plain(at))}"
        )


def _why_not(at: Path, readers: Callable[[], int]) -> str:
    pid, by_hand = _started(at)
    if pid is None:  # it has just left
        return ""
    if by_hand:
        return "it was started neither by `tfquiver up` nor by tfquiver.dataset"
    if (owner := _owner(at)) != os.geteuid():
        return f"the directory is that of user {_name(owner)}"
    home, own = _home_of(pid), os.environ.get("HOME", "")
    if home and own and os.path.realpath(home) != os.path.realpath(own):
        return f"who started it has another home, {shortened(home)}"
    if count := readers():
        return f"{many(count, 'reader is', 'readers are')} connected to it"
    return ""


def _started(at: Path) -> tuple[int | None, bool]:
    """The process that holds the directory; None: there is none. And whether it was started otherwise than by `tfquiver
    up` or tfquiver.dataset."""
    if (pid := stopping.holder(at / up_file.LOCK_FILE)) is not None:
        return pid, False
    if server := server_file.running(at):
        return server.pid, True
    if (pid := stopping.holder(at / stopping.NODE_LOCK)) is None:
        return None, False
    return pid, not any(word.startswith(_BY_DATASET) for word in stopping.arguments_of(pid))


def _owner(at: Path) -> int:
    try:
        return at.stat().st_uid
    except OSError:  # deleted meanwhile
        return os.geteuid()


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _home_of(pid: int) -> str:
    """HOME of the process when it began; "": it had none, or does not say."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((os.fsdecode(word[5:]) for word in words if word.startswith(b"HOME=")), "")
