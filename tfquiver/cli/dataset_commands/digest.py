"""`tfquiver digest build | show | verify | weights`."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from tfquiver import durable, errors, named_files, plain_text
from tfquiver.cli import calls
from tfquiver.cli.dataset_commands import digest_shown
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.data_sources_found_and_registered.listed import listed
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.plain_text import shortened
from tfquiver.scanning import digest_build
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.scanning.digest_verify import check_content
from tfquiver.sizes_durations_amounts import sizes
from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.stores.credentials.resolved import place_of
from tfquiver.users_arguments_checked.user_weights import user_weights

_MOST_WORKERS = 1024
_MOST_DIGITS = 18  # of a shard's number


def add_parser(subparsers: Any) -> None:
    """Adds `digest` and its subcommands; each sets `run`, a function of the parsed arguments."""
    parser = subparsers.add_parser("digest")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="scan files and write their digest; run again to go on after a kill")
    build.add_argument(
        "pattern", nargs="+", metavar="URI", help="path, glob or URI: 'data/train-*', 'gs://bucket/train-*'"
    )
    build.add_argument(
        "-o", "--output", type=named_files.typed_path, required=True, metavar="FILE", help="digest file to write"
    )
    build.add_argument("--name", default="", help="for people; default: the output's name")
    calls.add_format(build)
    defaults = CutPolicy()
    for field, what in (
        ("min", "no shard is smaller, but at a file's end"),
        ("target", "of shards on average, about"),
        ("max", "a shard ends with the record that takes it there"),
    ):
        size = getattr(defaults, f"{field}_bytes")
        shown = f"{size / (1 << 20):g}MiB"
        build.add_argument(f"--{field}_shard", default=str(size), metavar="SIZE", help=f"{what}; default: {shown}")
    build.add_argument(
        "--workers", type=_workers, default=os.cpu_count() or 1, metavar="N", help="scanning processes; default: CPUs"
    )
    build.add_argument(
        "--service", default="", metavar="WHERE",
        help="register it there, so that tfquiver.dataset finds it by its files: a coordinator, or a cache directory",
    )  # fmt: skip
    calls.add_token(build)
    build.set_defaults(run=_build)

    show = commands.add_parser("show", help="what a digest says")
    show.add_argument("file", type=named_files.typed_path, metavar="FILE", help="digest file (.tfqd)")
    show.add_argument("--files", action="store_true", help="list every file")
    show.add_argument("--shard", type=_number, metavar="N", help="only where the shard of that number is")
    show.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    show.set_defaults(run=_show)

    verify = commands.add_parser("verify", help="check a digest file, and with --content what it is a digest of")
    verify.add_argument("file", type=named_files.typed_path, metavar="FILE", help="digest file (.tfqd)")
    verify.add_argument("--content", action="store_true", help="read every file from its store and hash it again")
    verify.set_defaults(run=_verify)

    weights = commands.add_parser("weights", help="bind weights of records to a digest, for tfquiver.Weighted")
    weights.add_argument("file", type=named_files.typed_path, metavar="FILE", help="digest file (.tfqd)")
    weights.add_argument(
        "weights", type=named_files.typed_path, metavar="WEIGHTS", help="one a record: .npy, or raw float32"
    )
    weights.add_argument(
        "-o", "--output", type=named_files.typed_path, required=True, metavar="FILE", help=".tfqw file to write"
    )
    weights.set_defaults(run=_weights)


def _number(text: str) -> int:
    """Of a shard; which there are a digest says."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not the number of a shard: they begin with 0")
    return int(text)


def _workers(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and 0 < int(text) <= _MOST_WORKERS):
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number from 1 to {_MOST_WORKERS}")
    return int(text)


def _policy(arguments: argparse.Namespace) -> CutPolicy:
    """Raises InvalidArgumentError, which calls the flags as they are typed."""
    flags = ("--min_shard", "--target_shard", "--max_shard")
    least, target, most = (sizes.of_flag(flag, getattr(arguments, flag[2:])) for flag in flags)
    try:
        if not 1 <= least <= target <= most:
            given = ", ".join(f"{flag}={getattr(arguments, flag[2:])}" for flag in flags)
            raise errors.InvalidArgumentError(
                f"{given} (bytes, where no unit stands behind): must satisfy 1 <= min <= target <= max"
            )
        return CutPolicy(least, target, most, arguments.format)
    except errors.InvalidArgumentError as error:
        said = re.sub(r"\b(min|target|max)_bytes=", r"--\1_shard=", str(error))
        raise errors.InvalidArgumentError(re.sub(r"\bformat=", "--format=", said)) from error


def _journal(output: Path) -> Path:
    """Where what was scanned is kept until the digest is there. Raises InvalidArgumentError: it cannot be made."""
    journal = output.with_name(output.name + ".journal")
    try:
        journal.mkdir(exist_ok=True)
    except OSError as error:
        why = durable.why_not_made(journal, error)
        raise errors.InvalidArgumentError(f"--output={output}: beside it {journal}: {why}") from error
    return journal


def _bar(console: Console, *more: ProgressColumn) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        *more,
        console=console,
        disable=not console.is_terminal,
    )


def _build(arguments: argparse.Namespace) -> int:
    policy = _policy(arguments)
    output: Path = arguments.output
    named_files.check_output(f"--output={output}", output)  # after the scan would be late
    console = calls.console(stderr=True)
    service = coordinator_address(arguments.service) if arguments.service else ""
    token = calls.token(arguments)
    files, accesses = listed(arguments.pattern, of_records=arguments.format == formats.TFRECORD)
    journal = _journal(output)
    with _bar(console, TextColumn("records: {task.fields[records]:,}")) as bar:
        task = bar.add_task(many(len(files), "file"), total=sum(file.size_bytes for file in files), records=0)
        digest = digest_build.build(
            files,
            policy,
            name=arguments.name or output.stem,
            journal_dir=journal,
            workers=arguments.workers,
            progress=lambda now: bar.update(task, completed=now.done_bytes, records=now.records),
        )
    digest.save(output)
    shutil.rmtree(journal)
    if service:
        with Registrar(service, None, token, calls.CALL_S) as registrar:
            registrar.digest(output, ListingTerms(policy, place_of(accesses)))
    digest_shown.say(digest, output, False, calls.console())
    return 0


def _show(arguments: argparse.Namespace) -> int:
    digest = Digest.open(arguments.file)
    if arguments.shard is not None:
        where = digest_shown.shard(digest, arguments.shard)
        if arguments.json:
            print(json.dumps({"shard": arguments.shard} | where))
        else:
            digest_shown.say_shard(digest, arguments.shard, calls.console())
    elif arguments.json:
        print(json.dumps(digest_shown.summary(digest) | {"files": [file.uri for file in digest.files]}))
    else:
        digest_shown.say(digest, arguments.file, arguments.files, calls.console())
    return 0


def _weights(arguments: argparse.Namespace) -> int:
    named_files.check_output(f"--output={arguments.output}", arguments.output)
    digest = Digest.open(arguments.file)
    given = user_weights("WEIGHTS", arguments.weights)
    assert given is not None
    made = given.of(digest.name, digest.content_root, digest.num_records)
    try:
        durable.write(arguments.output, [made.to_bytes()], 0o666)  # the umask says
    except OSError as error:
        raise named_files.not_written(error, f"--output={arguments.output}", arguments.output) from error
    text = f"{arguments.output}: weights of {many(digest.num_records, 'record')} of {digest.name!r}"
    calls.console().print(plain_text.plain(text), soft_wrap=True)
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    digest = Digest.open(arguments.file)
    digest.verify_ids()
    console = calls.console(stderr=True)
    console.print(f"{plain_text.plain(str(arguments.file))}: sound; digest {digest.digest_id.hex()}", soft_wrap=True)
    if not arguments.content:
        return 0
    problems = 0
    with _bar(console) as bar:
        task = bar.add_task("content", total=digest.size_bytes)
        for problem in check_content(digest, progress=lambda more: bar.advance(task, more)):
            problems += 1
            at = "" if problem.offset is None else f" at offset {problem.offset}"
            about = "" if problem.uri in problem.what else f"{problem.uri}{at}: "
            bar.console.print(plain_text.plain(f"{about}{problem.what}"), soft_wrap=True)
    console.print(
        many(problems, "problem")
        if problems
        else f"content: sound; {many(digest.num_shards, 'shard has its hash', 'shards have their hashes')}"
    )
    return 1 if problems else 0
