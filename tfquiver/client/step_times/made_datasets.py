"""The data sets of this process, by which its steps are told to the coordinator as those of their job."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from tfquiver.daemon import endpoints

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
        """The job of its sessions: the op calls one without a name after its key (ops/tf/dataset)."""
        return self.job or f"job-{self.session_key[:_KEY_CHARACTERS]}"

    @property
    def coordinator(self) -> str:
        """Its address now: a daemon that was started again may listen elsewhere."""
        found = endpoints.current(self.endpoint) if self.endpoint else None
        return found.coordinator if found else self.service


_lock = threading.RLock()  # re-entrant: `forget` is called by the garbage collector, wherever it happens to run
_made: dict[str, MadeDataset] = {}  # by session key


def remember(data: MadeDataset) -> None:
    with _lock:
        _made[data.session_key] = data


def forget(session_key: str) -> None:
    """It is gone."""
    with _lock:
        _made.pop(session_key, None)


def made() -> list[MadeDataset]:
    """Those in use, the newest last."""
    with _lock:
        return list(_made.values())


def _unlock() -> None:
    """In a forked child: a thread of the parent, which is not there, may have held it."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_unlock)
