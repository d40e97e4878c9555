"""Schedulers by name. Pure."""

from __future__ import annotations

from collections.abc import Callable

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.service.coordinator.job_schedulers.fifo import Fifo
from tfquiver.service.coordinator.job_schedulers.gavel import Gavel
from tfquiver.service.coordinator.job_schedulers.interface import Scheduler
from tfquiver.service.coordinator.job_schedulers.sjf import ShortestJobFirst

# Those that see accelerators only have names of their own: they are what the joint ones are compared with.
_MADE: dict[str, Callable[[], Scheduler]] = {
    "fifo": Fifo,
    "sjf": lambda: ShortestJobFirst(joint=True),
    "gavel": lambda: Gavel(joint=True),
    "sjf_accelerators": lambda: ShortestJobFirst(joint=False),
    "gavel_accelerators": lambda: Gavel(joint=False),
}


def names() -> list[str]:
    return sorted(_MADE)


def make(name: str) -> Scheduler:
    """Raises InvalidArgumentError: there is none of this name."""
    if name not in _MADE:
        raise errors.InvalidArgumentError(f"scheduler: {shortened(name)} is none of {', '.join(names())}")
    return _MADE[name]()
