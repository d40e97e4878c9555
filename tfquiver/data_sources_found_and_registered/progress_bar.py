"""What the user sees of a first scan."""

from __future__ import annotations

import sys
from typing import Any

from tfquiver.users_arguments_checked.option_groups import Progress


class ProgressBar:
    """The user's progress callback, or a bar on a terminal, or nothing."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._bar: Any = None

    def __enter__(self) -> Progress | None:
        if self._progress is not None or sys.stderr is None or not sys.stderr.isatty():  # None: it was closed
            return self._progress
        from rich.console import Console
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(console=Console(stderr=True), transient=True)
        self._bar.start()
        task = self._bar.add_task("first use: scanning", total=None)
        return lambda done, total: self._bar.update(task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
