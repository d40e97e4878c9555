"""`tfquiver pack`: TFRecord files of what people have."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tfquiver import errors, plain_text, sizes
from tfquiver.amounts import many
from tfquiver.cli import calls
from tfquiver.packing import pack, sources, targets
from tfquiver.users_arguments_checked.checks import check_integer, check_name

_ABOUT = """Makes TFRecord files of tf.train.Examples out of image folders (one folder a class), WebDataset tars,
Parquet files and Hugging Face data sets on a disk. Each tar, Parquet or Arrow file becomes one file; images are put
together.
A run that was killed goes on when it is started again."""
_MOST_WORKERS = 256
_NAMED = 3


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("pack", description=_ABOUT)
    parser.add_argument("source", nargs="+", metavar="SRC", help="a folder, or a .tar, .parquet or .arrow file")
    parser.add_argument("-o", "--output", required=True, metavar="WHERE", help="a folder, or gs://bucket/prefix")
    parser.add_argument("--name", default="data", help="how the files' names begin (%(default)s)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (%(default)s)")
    parser.add_argument(
        "--part_bytes", default="128MiB", metavar="SIZE", help="of images in one file, about (%(default)s)"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    check_name("--name", arguments.name)
    if "/" in arguments.name:
        raise errors.InvalidArgumentError(
            f"--name={arguments.name}: is how files' names begin, without /: it is -o that says where they go"
        )
    check_integer("--workers", arguments.workers, 1, _MOST_WORKERS)
    left_out: list[Path] = []
    passed_over: list[Path] = []
    parts = sources.parts(
        [Path(source) for source in arguments.source], sizes.parse_bytes(arguments.part_bytes), left_out.append,
        passed_over.append,
    )  # fmt: skip
    columns = TextColumn("packing"), BarColumn(), MofNCompleteColumn(), TextColumn("files"), TimeRemainingColumn()
    with Progress(
        *columns, console=calls.console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as progress:
        task = progress.add_task("", total=len(parts))
        made = pack.pack(
            parts, targets.target(arguments.output), arguments.name, arguments.workers,
            lambda finished, count: progress.update(task, completed=finished, total=count),
        )  # fmt: skip
    print(f"{arguments.output}: {made} file{'s' * (made != 1)} made, {len(parts) - made} were there")
    if passed_over:
        print(f"{many(len(passed_over), 'link')} left out, to what is packed under another name: {_few(passed_over)}")
    if left_out:
        print(f"{many(len(left_out), 'file')} of another kind left out: {_few(left_out)}")
    return 0


def _few(paths: list[Path]) -> str:
    return ", ".join(plain_text.plain(path.name) for path in paths[:_NAMED]) + ", ..." * bool(paths[_NAMED:])
