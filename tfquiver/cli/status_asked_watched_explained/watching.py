"""`tfquiver status --watch`: the same again and again; in a pipe a line each time."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cli.status_tables_and_warnings import fitting, status_view
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes, of_rate

Ask = Callable[[], Mapping[str, Any] | None]  # None: it is what it was
_KEY_READ_BYTES = 64
_OF_PROBLEMS = 3  # one in so many lines, where there is no room for everything


def watch(ask: Ask, every_s: float, console: Console | None = None) -> int:
    """Shows what `ask` gives until a key is pressed, or for ever where there is no keyboard. A cluster that does not
    answer is a line, and is asked again."""
    shown = console or calls.console()
    if not shown.is_terminal:
        text = ""
        while True:
            began_s = time.monotonic()
            text = line(ask) or text
            print(_now(), text, file=shown.file, flush=True)
            time.sleep(max(every_s - (time.monotonic() - began_s), 0.0))
    with _ended_in_order(), _keyboard() as keyboard, Live(console=shown, screen=True, auto_refresh=False) as live:
        pages = Pages(ask, keyboard is not None)
        while True:
            began_s = time.monotonic()
            live.update(pages.page(shown.width, shown.height), refresh=True)
            if _pressed(keyboard, max(every_s - (time.monotonic() - began_s), 0.0)):
                return 0


def as_json(ask: Ask, every_s: float) -> int:
    """An object a line, for scripts; `error` in place of all else where nobody answers."""
    text = ""
    while True:
        began_s = time.monotonic()
        try:
            if (told := ask()) is not None:
                text = json.dumps(told)
        except errors.TfquiverError as error:
            text = json.dumps({"error": plain_text.of_error(error)})
        print(text, flush=True)
        time.sleep(max(every_s - (time.monotonic() - began_s), 0.0))


def line(ask: Ask) -> str:
    """A status in a line; empty: it is what it was."""
    try:
        status = ask()
    except errors.TfquiverError as error:
        return plain_text.of_error(error)
    if status is None:
        return ""
    nodes = [node for node in status["nodes"] if "error" not in node]
    used, quota = (of_bytes(sum(node[key] for node in nodes)) for key in ("used_bytes", "quota_bytes"))
    reading = {
        (info["job"], info["digest_id"]): info for info in status["sessions"] if info.get("bytes_per_s") is not None
    }
    rate = sum(info["bytes_per_s"] for info in reading.values())
    of_nodes = many(len(nodes), "node")
    of_jobs = many(len(reading), "job reads", "jobs read")
    parts = [f"{of_nodes}, {used} of {quota}", f"{of_jobs} {of_rate(rate)}"]
    if rate:
        waits = sum(info["bytes_per_s"] * info["stall_share"] for info in reading.values()) / rate
        parts.append(f"wait {waits:.0%}")
    parts += [f"{one['kind']} {plain_text.plain(one['dataset'])}" for one in status["going_on"]]
    parts.append(f"saved {of_bytes(status['saved']['bytes'])}")
    parts += [f"! {plain_text.plain(problem)}" for problem in status["problems"][:1]]
    if more := status["problems"][1:]:
        parts.append(f"! and {len(more)} more")
    return "; ".join(parts)


def _now() -> str:
    return datetime.datetime.now().strftime("%H:%M:%S")


class Pages:
    """A terminal's page: as many lines as there is room for. Where that is not all: problems, in a third of it, and
    jobs, then the others."""

    def __init__(self, ask: Ask, has_keyboard: bool) -> None:
        self._ask, self._how = ask, "any key ends" if has_keyboard else "Ctrl-C ends"
        self._status: Mapping[str, Any] | None = None
        self._lines, self._in_all = list[str](), 0
        self._width = self._height = 0

    def page(self, width: int, height: int) -> Text:
        """Of now. What has not changed is not laid out again."""
        room = max(height - 1, 1)
        try:
            status = self._ask()
            if status is not None or width != self._width or height != self._height:
                self._status = status or self._status
                self._lay_out(width, room)
                self._width, self._height = width, height
        except errors.TfquiverError as error:
            self._lay_out(width, room, error)
            self._width = 0
        more = max(self._in_all - room, 0)
        cut = f"; {many(more, 'line')} more than there is room for" if more else ""
        return Text.from_ansi("\n".join([*self._lines[:room], f"{_now()}  {self._how}{cut}"]))

    def _lay_out(self, width: int, room: int, error: errors.TfquiverError | None = None) -> None:
        if error is not None:
            problem = fitting.of_problems([plain_text.of_error(error)], width)
            self._lines = _drawn(width, lambda drawn: drawn.print(Text("\n".join(problem), style="red")))
            self._in_all = len(self._lines)
        elif (status := self._status) is not None:
            some, left_out = fitting.cut(status, room)
            self._lines = _drawn(width, lambda drawn: status_view.show(some, drawn))
            self._in_all = len(self._lines) + left_out
            if self._in_all > room:
                most = max(room // _OF_PROBLEMS, 1)
                self._lines = _drawn(width, lambda drawn: status_view.show(some, drawn, False, None, most, True))


def _drawn(width: int, draw: Callable[[Console], None]) -> list[str]:
    out = io.StringIO()
    draw(calls.console(file=out, width=width, force_terminal=True, color_system="standard"))
    return out.getvalue().splitlines()


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM ends what is in here as Ctrl-C does: else the terminal would be left as it was made for the page, without
    a cursor and without what is typed."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _keyboard() -> Iterator[int | None]:
    """Standard input, a key at a time; None: it is no terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(keyboard: int | None, timeout_s: float) -> bool:
    if keyboard is None:
        time.sleep(timeout_s)
        return False
    readable, _, _ = select.select([keyboard], [], [], timeout_s)
    return bool(readable) and bool(os.read(keyboard, _KEY_READ_BYTES) or True)
