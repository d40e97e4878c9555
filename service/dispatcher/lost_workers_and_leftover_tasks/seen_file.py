"""What a dispatcher has seen of its workers, for the one that comes next: `<work_dir>/workers_seen`, one JSON object.

Without it, or where it is of another start of the machine, the next one knows less, and waits longer. It is not synced:
after a machine has gone down it says nothing any more.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from absl import logging

from tfquiver import durable
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.outages import Outage
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.unread_tasks import LostTask

FILE = "workers_seen"
_EVERY_S = 5.0
_MOST_BYTES = 4 << 20
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Seen:
    """As Outages and UnreadTasks have it after a look."""

    looked: float | None = None  # on the clock of this start of the machine; None: nobody knows
    outages: Mapping[str, Outage] = field(default_factory=dict)
    tasks: Mapping[int, LostTask] = field(default_factory=dict)


class SeenFile:
    """Not thread-safe."""

    def __init__(self, work_dir: Path) -> None:
        self._path = work_dir / FILE
        self._written: float | None = None
        self._boot_id = ""
        with contextlib.suppress(OSError):
            self._boot_id = _BOOT_ID.read_text().strip()

    def read(self, now: float) -> Seen:
        """By the last dispatcher here; nothing, where it is not understood, or means nothing now."""
        try:
            said = json.loads(durable.read(self._path, _MOST_BYTES))
            if not self._boot_id or said["boot_id"] != self._boot_id:
                return Seen()
            return Seen(
                _time(said["looked_s"], now),
                {worker: Outage(_some_time(since, now), _some_time(back, now))
                 for worker, (since, back) in said["outages"].items()},
                {int(task_id): LostTask(
                    _time(lacking, now), _some_time(away, now), lives is True, _some_time(back, now)
                ) for task_id, (lacking, away, lives, back) in said["tasks"].items()},
            )  # fmt: skip
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return Seen()

    def write(self, seen: Seen) -> None:
        """Every few seconds. Where the disk refuses it stays as it was: then the next dispatcher waits longer."""
        if seen.looked is None or (self._written is not None and seen.looked < self._written + _EVERY_S):
            return
        self._written = seen.looked
        outages = {worker: [one.since, one.back] for worker, one in seen.outages.items()}
        tasks = {
            task_id: [one.lacking_at, one.away_since, one.lives, one.back_since] for task_id, one in seen.tasks.items()
        }
        said = {"boot_id": self._boot_id, "looked_s": seen.looked, "outages": outages, "tasks": tasks}
        beside = self._path.with_name(f"{FILE}.new")
        try:
            beside.write_text(json.dumps(said))
            beside.rename(self._path)
        except OSError as error:
            every_n_seconds(logging.WARNING, "%s: %s", 600, self._path, error.strerror)


def _time(value: Any, now: float) -> float:
    """Raises ValueError: none that has been."""
    if not isinstance(value, (int, float)) or not value <= now:
        raise ValueError(value)
    return float(value)


def _some_time(value: Any, now: float) -> float | None:
    return None if value is None else _time(value, now)
