"""What is seen while the demo runs: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Bar:
    """One row: something that goes on until its total, and a note beside it."""

    def __init__(self, progress: Progress | None, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def at(self, done: float, note: str, of: float | None = None) -> None:
        """`of`: its total, where that was not known before."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, note=note, total=of)

    def stop(self) -> None:
        """It goes on no more, wherever it is: its time stands still."""
        if self._progress is not None:
            self._progress.stop_task(self._task)


class Show:
    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[note]}"))
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console) if console.is_terminal else None
        self._started = time.monotonic()

    def __enter__(self) -> Show:
        (self._progress or nullcontext()).__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        (self._progress or nullcontext()).__exit__(*error)

    def step(self, text: str) -> None:
        """A line that stays."""
        self._console.print(f"{time.monotonic() - self._started:6.1f} s  [bold]{text}", highlight=False)

    def without_bars(self, text: str) -> None:
        """A line for those who see no bars."""
        if self._progress is None:
            self._console.print(f"{time.monotonic() - self._started:6.1f} s  {text}", highlight=False)

    def bar(self, name: str, total: float | None, note: str = "") -> Bar:
        """`total` None: how long it takes is not known, and the bar only moves."""
        task = TaskID(0) if self._progress is None else self._progress.add_task(name, total=total, note=note)
        return Bar(self._progress, task)
