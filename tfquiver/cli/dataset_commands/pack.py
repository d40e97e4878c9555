"""`tfquiver pack`: TFRecord files of what people have."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.packing import pack, sources, targets
from tfquiver.packing.folders import folders_of
from tfquiver.packing.sources import Part
from tfquiver.sizes_durations_amounts import sizes
from tfquiver.sizes_durations_amounts.amounts import many

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
    parser.add_argument(
        "--workers", type=_workers, default=os.cpu_count() or 1, metavar="N", help="processes (%(default)s)"
    )
    parser.add_argument(
        "--part_bytes", default="128MiB", metavar="SIZE", help="of images in one file, about (%(default)s)"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    pack.check_name("--name", arguments.name)
    where = targets.target(arguments.output)
    where.check()
    part_bytes = sizes.of_flag("--part_bytes", arguments.part_bytes)
    if part_bytes < 1:
        raise errors.InvalidArgumentError(f"--part_bytes={arguments.part_bytes}: no file would have anything in it")
    left_out, passed_over = _Few(), _Few()
    parts = sources.parts(
        [_local(source) for source in arguments.source], part_bytes, left_out.add, passed_over.add
    )  # fmt: skip
    _check_is_no_source(arguments.output, parts)
    columns = TextColumn("packing"), BarColumn(), MofNCompleteColumn(), TextColumn("files"), TimeRemainingColumn()
    with Progress(
        *columns, console=calls.console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as progress:
        task = progress.add_task("", total=len(parts))
        made = pack.pack(
            parts, where, arguments.name, arguments.workers,
            lambda finished, count: progress.update(task, completed=finished, total=count),
        )  # fmt: skip
    print(f"{arguments.output}: {made} file{'s' * (made != 1)} made, {len(parts) - made} were there")
    if passed_over.count:
        print(f"{many(passed_over.count, 'link')} left out, to what is packed under another name: {passed_over}")
    if left_out.count:
        print(f"{many(left_out.count, 'file')} of another kind left out: {left_out}")
    return 0


def _local(source: str) -> Path:
    """Raises InvalidArgumentError: it is somewhere else."""
    scheme, is_uri, path = source.partition("://")
    if not is_uri:
        return Path(source)
    what = (
        f"give the path alone, {path}"
        if scheme == "file"
        else "what is packed is a folder or file of this machine: copy it here first, or show a bucket's files as a "
        "folder (`tfquiver mount --help`)"
    )
    raise errors.InvalidArgumentError(f"{source}: {what}")


def _check_is_no_source(output: str, parts: Sequence[Part]) -> None:
    """A folder that is packed, or that has what is packed in it, would have the pack's files in it, too; beside a tar
    that was named itself they may lie. Raises InvalidArgumentError."""
    if "://" in output:
        return
    out = os.path.realpath(Path(output).expanduser())
    folders = dict.fromkeys(one for part in parts if _is_folder(part) for one in (part.source, *folders_of(part.files)))
    if named := next((one for one in folders if one is not None and os.path.realpath(one) == out), None):
        raise errors.InvalidArgumentError(
            f"-o {output}: is {named}, which is packed: name another folder, the pack's files would lie among its own"
        )


def _is_folder(part: Part) -> bool:
    return part.source != part.files[0]


def _workers(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and 0 < int(text) <= _MOST_WORKERS):
        raise argparse.ArgumentTypeError(f"{plain_text.shortened(text)} is not a number from 1 to {_MOST_WORKERS}")
    return int(text)


class _Few:
    """Files that are told: how many, and the names of some. Of millions all would be in memory."""

    def __init__(self) -> None:
        self.count, self._first = 0, list[Path]()

    def add(self, path: Path) -> None:
        self.count += 1
        if len(self._first) < _NAMED:
            self._first.append(path)

    def __str__(self) -> str:
        names = ", ".join(plain_text.plain(path.name) for path in self._first)
        return names + ", ..." * (self.count > len(self._first))
