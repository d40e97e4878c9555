"""`tfquiver status --watch`: the same again and again; in a pipe a line each time."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.live import Live
from rich.text import Text

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cli.showing import status_view

Ask = Callable[[], Mapping[str, Any]]
_KEY_READ_BYTES = 64


def watch(ask: Ask, every_s: float, console: Console | None = None) -> int:
    """Shows what `ask` gives until a key is pressed, or for ever where there is no keyboard. A cluster that does not
    answer is a line, and is asked again."""
    shown = console or calls.console()
    if not shown.is_terminal:
        while True:
            began_s = time.monotonic()
            shown.print(_now(), line(ask), soft_wrap=True)
            shown.file.flush()
            time.sleep(max(every_s - (time.monotonic() - began_s), 0.0))
    with _keyboard() as keyboard, Live(console=shown, screen=True, auto_refresh=False) as live:
        while True:
            began_s = time.monotonic()
            live.update(_page(ask, shown.width, shown.height, keyboard is not None), refresh=True)
            if _pressed(keyboard, max(every_s - (time.monotonic() - began_s), 0.0)):
                return 0


def as_json(ask: Ask, every_s: float) -> int:
    """An object a line, for scripts; `error` in place of all else where nobody answers."""
    while True:
        began_s = time.monotonic()
        try:
            told = ask()
        except errors.TfquiverError as error:
            told = {"error": plain_text.of_error(error)}
        print(json.dumps(told), flush=True)
        time.sleep(max(every_s - (time.monotonic() - began_s), 0.0))


def line(ask: Ask) -> str:
    """A status in a line."""
    try:
        status = ask()
    except errors.TfquiverError as error:
        return plain_text.of_error(error)
    nodes = [node for node in status["nodes"] if "error" not in node]
    used, quota = (decimal(sum(node[key] for node in nodes)) for key in ("used_bytes", "quota_bytes"))
    reading = {
        (info["job"], info["digest_id"]): info for info in status["sessions"] if info.get("bytes_per_s") is not None
    }
    rate = sum(info["bytes_per_s"] for info in reading.values())
    of_nodes = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    of_jobs = "1 job reads" if len(reading) == 1 else f"{len(reading)} jobs read"
    parts = [f"{of_nodes}, {used} of {quota}", f"{of_jobs} {rate / 1e6:.1f} MB/s"]
    if rate:
        waits = sum(info["bytes_per_s"] * info["stall_share"] for info in reading.values()) / rate
        parts.append(f"wait {waits:.0%}")
    parts += [f"{one['kind']} {plain_text.plain(one['dataset'])}" for one in status["going_on"]]
    parts.append(f"saved {decimal(status['saved']['bytes'])}")
    parts += [f"! {plain_text.plain(problem)}" for problem in status["problems"][:1]]
    if more := status["problems"][1:]:
        parts.append(f"! and {len(more)} more")
    return "; ".join(parts)


def _now() -> str:
    return datetime.datetime.now().strftime("%H:%M:%S")


def _page(ask: Ask, width: int, height: int, has_keyboard: bool) -> Text:
    """As many lines as there is room for: what stands first is what matters most."""
    out = io.StringIO()
    drawn = calls.console(file=out, width=width, force_terminal=True, color_system="standard")
    try:
        status_view.show(ask(), drawn, legends=False)
    except errors.TfquiverError as error:
        drawn.print(Text(f"! {plain_text.of_error(error)}", style="red"))
    lines = out.getvalue().splitlines()
    how = "any key ends" if has_keyboard else "Ctrl-C ends"
    room = max(height - 1, 1)
    cut = f"; {len(lines) - room} lines more than there is room for" if len(lines) > room else ""
    return Text.from_ansi("\n".join([*lines[:room], f"{_now()}  {how}{cut}"]))


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
