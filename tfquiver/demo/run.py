"""`tfquiver demo`: a coordinator, a dispatcher, two workers and three trials over a slow store; then without them."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from tfquiver import errors, named_files
from tfquiver.charts_as_png import png
from tfquiver.cli import told_to_stop
from tfquiver.demo import needs, picture, rounds, sample_files
from tfquiver.demo.report import DemoResult, bars, table, verdict
from tfquiver.demo.show import Show
from tfquiver.plain_text import plain
from tfquiver.sizes_durations_amounts.amounts import many

_INTERRUPTED = 130
_PNG = Path("tfquiver-demo.png")
_NO_PICTURE = "no picture: pip install matplotlib"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("demo")
    parser.add_argument("--quick", action="store_true", help="less data and fewer epochs")
    parser.add_argument(
        "--png", type=named_files.typed_path, default=_PNG, metavar="FILE", help=f"the picture; default: {_PNG}"
    )
    parser.add_argument("--json", type=named_files.typed_path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument(
        "--data", metavar="DIRECTORY",
        help="no demo: only write four small TFRecord files there, to try the README's lines with",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.data is not None:
        made = sample_files.write(_directory(arguments.data))
        records = many(len(made) * sample_files.RECORDS, "record")
        print(f"{plain(arguments.data)}: {many(len(made), 'file')}, {plain(made[0].name)} and so on, of {records}")
        return 0
    for flag, file in (("--png", arguments.png), ("--json", arguments.json)):
        if file is not None:  # else minutes later it could not be written
            named_files.check_output(f"{flag}={file}", file, replaced=False)
    needs.check()
    place = needs.place()
    console, meanwhile = Console(), Console(stderr=True)
    if not png.can_draw():
        meanwhile.print(_NO_PICTURE, highlight=False)
    scale = rounds.QUICK if arguments.quick else rounds.FULL
    try:
        with tempfile.TemporaryDirectory(prefix="tfquiver-demo-", dir=place) as scratch:
            result = asyncio.run(_until_stopped(scale, Path(scratch), Show(meanwhile)))
    except KeyboardInterrupt:
        meanwhile.print("interrupted; everything has been stopped and removed")
        return _INTERRUPTED
    return told(result, console, arguments.png, arguments.json)


def _directory(text: str) -> Path:
    """Raises InvalidArgumentError: none, which as a path would be the working directory, or that of a user whom there
    is not."""
    if not text:
        raise errors.InvalidArgumentError("--data '': name a directory; the one that this is started in is .")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise errors.InvalidArgumentError(f"--data={text}: {error}") from error


def told(result: DemoResult, console: Console, picture_at: Path, figures_at: Path | None) -> int:
    """The exit code. Files come last: what a minute was spent on is out by then. Raises the typed error of a failed
    write of the figures."""
    console.print(table(result))
    console.print(bars(result, console.options.ascii_only))
    console.print(f"\n{verdict(result)}", highlight=False)
    _draw(result, picture_at, console)
    if not result.complete:
        console.print("[red]a trial did not see every record exactly once in every epoch")
    if figures_at:
        try:
            figures_at.write_text(json.dumps(result.as_json(), indent=2) + "\n")
        except OSError as error:
            raise named_files.not_written(error, f"--json={figures_at}", figures_at) from error
    return 0 if result.complete else 1


def _draw(result: DemoResult, path: Path, console: Console) -> None:
    """The figures are out by now: a picture that cannot be made is no failure of the demo."""
    if not png.can_draw():
        console.print(_NO_PICTURE, highlight=False)
        return
    try:
        picture.draw(result, path)
    except errors.TfquiverError as error:
        console.print(f"no picture: {error} (--png=FILE names another place)", markup=False, highlight=False)
    else:
        console.print(f"picture: {path}", markup=False, highlight=False)


async def _until_stopped(scale: rounds.Scale, scratch: Path, show: Show) -> DemoResult:
    task = asyncio.current_task()
    assert task is not None
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    try:
        with told_to_stop.told(stop):
            return await rounds.demo(scale, scratch, show)
    except asyncio.CancelledError:
        if stopped:
            raise KeyboardInterrupt from None
        raise
