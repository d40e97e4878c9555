"""`tfquiver mount` and `tfquiver unmount`: a data set's files as a file system."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from absl import flags, logging

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cli.dataset_commands import waiting
from tfquiver.cluster_address import service_name
from tfquiver.digests import formats
from tfquiver.durable import private_directory, why_not_made, why_not_used
from tfquiver.grpc_plumbing import addresses
from tfquiver.log_files_and_lines import kept_short, log_file
from tfquiver.mounting import mount_points
from tfquiver.mounting.named import AUTO
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.sizes_durations_amounts import sizes
from tfquiver.sizes_durations_amounts.amounts import of_bytes

if TYPE_CHECKING:
    from tfquiver.glob_patterns_and_file_trees.tree import FileTree
    from tfquiver.mounting.serving import MountOptions

_LOG = "mount.log"
_COORDINATOR_S = 30.0  # as long as one that is just starting is waited for
_ABOUT = """Shows a data set's files as they are in the store, read-only: names, sizes, times, bytes. What is read comes
through the cache, and every byte is checked; what cannot be had is an I/O error, and a line in the log that names it.
The mount is a process of its own that asks the node of this machine; it outlives restarts of the node. Files that
nobody has used before are scanned (and cached on the way)."""
_UNABOUT = """Takes a mount away, also a stale one whose process was killed. While somebody reads there it is refused,
unless --lazy: then it is gone when the last one has left."""


def add_parser(subparsers: Any) -> None:
    """Adds both commands; each sets `run`, a function of the parsed arguments."""
    mount = subparsers.add_parser("mount", description=_ABOUT)
    mount.add_argument("source", nargs="+", metavar="SOURCE", help="path, glob or URI of files, one digest (.tfqd), or "
                       "a data set's name or digest id")  # fmt: skip
    mount.add_argument("mount_point", metavar="DIR", help="an empty directory")
    mount.add_argument("--cache_dir", default="", metavar="DIR", help="cache directory of this machine; its node is "
                       "started where none runs. Needed beside a coordinator's address")  # fmt: skip
    calls.add_where(mount)
    mount.add_argument("--name", default="", help="of a data set that nobody has used before, for people; default: "
                       "taken from the files")  # fmt: skip
    mount.add_argument("--format", choices=(AUTO, *formats.FORMATS), default=AUTO, help="what files are that nobody "
                       "has used before: tfrecord, whose shards `tfquiver.dataset` shares; bytes: anything, cut by "
                       "content; default: as the first file begins")  # fmt: skip
    mount.add_argument("--allow_other", action="store_true", help="let other users of this machine read, too")
    mount.add_argument("--patience_s", type=_seconds, default=60.0, metavar="SECONDS", help="how long a read waits for "
                       "a node or store that is away before it is an I/O error; default: 60")  # fmt: skip
    mount.add_argument("--read_ahead", default="64MiB", metavar="SIZE", help="how far each sequential reader is "
                       "fetched ahead, half of it at a time; default: 64MiB")  # fmt: skip
    mount.add_argument("--memory", default="512MiB", metavar="SIZE", help="of shards that are stored compressed and "
                       "held open; default: 512MiB")  # fmt: skip
    mount.add_argument("--foreground", action="store_true", help="serve in this process until Ctrl-C, log to standard "
                       "error; default: in the background, log to log/mount.log of the cache directory")  # fmt: skip
    mount.add_argument("--tell", action="store_true", help=argparse.SUPPRESS)
    mount.set_defaults(run=_mount)
    unmount = subparsers.add_parser("unmount", description=_UNABOUT)
    unmount.add_argument("mount_point", metavar="DIR", help="where it is mounted")
    unmount.add_argument("--lazy", action="store_true", help="also while it is used")
    unmount.set_defaults(run=_unmount)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"{plain_text.shortened(text)} is not a number of seconds up to 86400")
    return value


def _unmount(arguments: argparse.Namespace) -> int:
    mount = mount_points.unmount(arguments.mount_point, arguments.lazy)
    print(f"{plain_text.plain(mount.path)}: {plain_text.plain(mount.name)} is unmounted")
    return 0


def _mount(arguments: argparse.Namespace) -> int:
    cache_dir, service = _where(arguments)
    _check_extra()
    ahead_bytes = sizes.of_flag("--read_ahead", arguments.read_ahead)
    memory_bytes = sizes.of_flag("--memory", arguments.memory)
    if not arguments.foreground:
        mount_points.prepare(arguments.mount_point, cache_dir, arguments.allow_other)
        if service:  # what the process in the background says while it waits goes to its log
            with calls.channel(service, _COORDINATOR_S):
                pass
        return _in_background(arguments, cache_dir)
    from tfquiver.mounting.serving import MountOptions, serve

    flags.FLAGS(["tfquiver"])  # absl logs as it should only where its flags have been looked at
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)
    options = MountOptions(
        arguments.source, Path(arguments.mount_point), cache_dir, service, calls.token(arguments), arguments.name,
        arguments.format,
        arguments.allow_other, arguments.patience_s, ahead_bytes, memory_bytes,
    )  # fmt: skip
    return _told(options, serve) if arguments.tell else _shown(options, serve)


def _where(arguments: argparse.Namespace) -> tuple[Path, str]:
    """The cache directory, and the coordinator's address where one was given. Raises InvalidArgumentError."""
    named = service_name.chosen(arguments.service)
    if not named and not arguments.cache_dir:
        named = calls.where(arguments)
    service = named if named and addresses.is_address(named) else ""
    if not (cache_dir := arguments.cache_dir or ("" if service else named)):
        raise errors.InvalidArgumentError(
            f"which node? give --cache_dir of this machine's node{' beside --service' if service else ''}, or name the "
            f"directory in {service_name.VARIABLE}"
        )
    return Path(cache_dir).expanduser().absolute(), service


def _check_extra() -> None:
    missing = [module for module in ("pyfuse3", "trio") if importlib.util.find_spec(module) is None]
    if missing:
        raise errors.NotFoundError(
            f"{' and '.join(missing)}: not installed; `pip install '.[fuse]'` in a clone of tfquiver brings it, after "
            f"`{mount_points.INSTALL}` (Debian)"
        )


Serve = Callable[["MountOptions", Callable[[int, int], None], Callable[[types_pb2.Dataset, "FileTree"], None]], None]


def _shown(options: MountOptions, serve: Serve) -> int:
    with waiting.bar() as bar:
        scan = bar.add_task("scanning", total=None, visible=False)

        def mounted(dataset: types_pb2.Dataset, tree: FileTree) -> None:
            bar.stop()
            print(_said(dataset.name, len(tree), dataset.size_bytes, options.mount_point), flush=True)

        serve(options, lambda done, total: bar.update(scan, completed=done, total=total, visible=True), mounted)
    print(f"{options.mount_point}: unmounted")
    return 0


def _told(options: MountOptions, serve: Serve) -> int:
    """For `_in_background`, which reads it: a JSON object a line."""
    kept_short.begin()

    def say(**fields: object) -> None:
        try:
            print(json.dumps(fields), flush=True)
        except BrokenPipeError as error:  # who started this is gone: nobody has been told that it is mounted
            raise errors.CancelledError_("the command that started this was stopped") from error

    def mounted(dataset: types_pb2.Dataset, tree: FileTree) -> None:
        os.chdir("/")  # who started this may want to unmount where it did
        say(name=dataset.name, files=len(tree), size_bytes=dataset.size_bytes)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    try:
        serve(options, lambda done, total: say(done=done, total=total), mounted)
    except errors.TfquiverError as error:
        logging.error("%s", plain_text.of_error(error))
        say(error=plain_text.of_error(error), code=errors.code_number(error))
        return 1
    return 0


def _in_background(arguments: argparse.Namespace, cache_dir: Path) -> int:
    try:
        cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise errors.InvalidArgumentError(f"cache_dir {cache_dir}: {why_not_made(cache_dir, error)}") from error
    try:
        private_directory(cache_dir / "log")
        log = log_file.opened(cache_dir / "log" / _LOG)
    except OSError as error:
        what = f"cache_dir {cache_dir}: log/{_LOG}"
        if isinstance(error, PermissionError):
            raise errors.PermissionError_(f"{what}: {why_not_used(error)}") from error
        raise errors.from_os_error(error, what) from error
    command = [sys.executable, "-m", "tfquiver", *_again(arguments, cache_dir)]
    with log, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        env={**os.environ, kept_short.VARIABLE: str(cache_dir / "log" / _LOG)},
    ) as child:  # fmt: skip
        assert child.stdout is not None
        try:
            told = _last(child.stdout)
        except BaseException:
            child.terminate()
            raise
        if "name" in told:
            print(_said(told["name"], told["files"], told["size_bytes"], Path(arguments.mount_point)))
            child.returncode = 0  # it goes on alone: `with` must not wait for it
            return 0
    if "error" in told:
        raise errors.from_number(int(told.get("code", 0)), str(told["error"]))
    words = log_file.tail(cache_dir / "log" / _LOG)
    raise errors.UnavailableError(f"the mount's process ended; the end of log/{_LOG} of its cache directory:\n{words}")


def _again(arguments: argparse.Namespace, cache_dir: Path) -> list[str]:
    """The same command, for the process that serves."""
    words = ["mount", "--foreground", "--tell", f"--cache_dir={cache_dir}"]
    for flag in ("service", "auth_token_file", "name", "format", "patience_s", "read_ahead", "memory"):
        words.append(f"--{flag}={getattr(arguments, flag)}")
    if arguments.allow_other:
        words.append("--allow_other")
    return [*words, "--", *arguments.source, arguments.mount_point]


def _last(lines: IO[bytes]) -> dict[str, Any]:
    """What the process said when it had mounted, or why it has not; empty: it ended without a word."""
    with waiting.bar() as bar:
        scan = bar.add_task("scanning", total=None, visible=False)
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if not isinstance(told, dict):
                continue
            if "done" not in told:
                return told
            bar.update(scan, completed=told["done"], total=told["total"], visible=True)
    return {}


def _said(name: str, files: int, size_bytes: int, point: Path) -> str:
    what = f"{files} file{'' if files == 1 else 's'}, {of_bytes(size_bytes)}"
    return (
        f"{plain_text.plain(name)}: {what} at {point}; `tfquiver unmount {plain_text.for_shell(point)}` takes it away"
    )
