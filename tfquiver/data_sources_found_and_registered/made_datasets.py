"""The data sets of this process, by which its steps are told to the coordinator as those of their job."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from tfquiver.node_daemon_and_notes_in_directories import endpoints

_KEY_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class MadeDataset:
    """`job`: as the user named it, or empty. `service`: the coordinator's address as it was when the data set
    was made; `endpoint`: of the node of this machine, where the coordinator is in it, else empty; `token`: the
    cluster's, or empty."""

    job: str
    session_key: str
    service: str
    endpoint: str
    token: str

    @property
    def known_as(self) -> str:
        """The job of its sessions: the op calls one without a name after its key (ops/tf/quiver_dataset_op)."""
        return self.job or f"job-{self.session_key[:_KEY_CHARACTERS]}"

    @property
    def coordinator(self) -> str:
        """Its address now: a daemon that was started again may listen elsewhere."""
        found = endpoints.current(self.endpoint) if self.endpoint else None
        return found.coordinator if found else self.service


_lock = threading.RLock()  # re-entrant: `forget` is called by the garbage collector, wherever it happens to run
_made: dict[MadeDataset, int] = {}  # how often each was remembered: readers of one key may be several


def remember(data: MadeDataset) -> None:
    with _lock:
        _made[data] = _made.pop(data, 0) + 1


def forget(data: MadeDataset) -> None:
    """It is gone. Once for each `remember`."""
    with _lock:
        left = _made.get(data, 0) - 1
        if left > 0:
            _made[data] = left
        else:
            _made.pop(data, None)


def made() -> list[MadeDataset]:
    """Those in use, the newest last."""
    with _lock:
        return list(_made)


def _unlock() -> None:
    """In a forked child: a thread of the parent, which is not there, may have held it."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_unlock)
