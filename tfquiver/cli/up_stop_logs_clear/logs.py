"""`tfquiver logs`: what the servers in a cache directory of this machine have written, and what they write."""

from __future__ import annotations

import argparse
import select
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tfquiver import durable, errors
from tfquiver.cli import calls
from tfquiver.cli.up_stop_logs_clear.followed_log import FollowedLog
from tfquiver.cluster_address import running, service_name
from tfquiver.local_cluster import stopping
from tfquiver.node_daemon_and_notes_in_directories import logged_to, server_file, whose_files
from tfquiver.plain_text import plain, shortened

_ABOUT = """Prints the last lines of the logs of the servers that run, or ran, in a cache directory of this machine:
node, and with `tfquiver up` coordinator, dispatcher and workers. Of a node that was started by hand it is the file that
its standard error goes to, where that is one. Logs of other machines are there."""
_NODES = "node.log"
_ELSEWHERE = "servers that were started by hand, by a unit or in a container log to their standard error"
_LINES, _MOST_LINES = 40, 1_000_000
_POLL_S = 0.3
_MOST_FILES = 256


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("logs", description=_ABOUT)
    calls.add_where(parser, positional=True, which="cache directory of this machine")
    parser.add_argument("--lines", type=_count, default=_LINES, metavar="N", help=f"of each; default: {_LINES}")
    parser.add_argument("--follow", action="store_true", help="go on with what is written, until Ctrl-C")
    parser.set_defaults(run=_run)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 7 and int(text) <= _MOST_LINES):
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number from 0 to {_MOST_LINES}")
    return int(text)


def _elsewhere(directory: Path) -> str:
    """Of a server that runs there and logs elsewhere: where, as far as that is known."""
    server = server_file.running(directory)
    try:
        pid = server.pid if server else stopping.holder(directory / stopping.NODE_LOCK)
    except errors.TfquiverError:  # another user's
        return ""
    if pid is None:
        return ""
    try:
        to = str(Path(f"/proc/{pid}/fd/2").readlink())
    except OSError:
        to = ""
    file = f", which is {plain(to)}" if to.startswith("/") else ""
    return f" (the {server.server if server else 'node'} there, pid {pid}, logs to its standard error{file})"


def _logs_in(directory: Path) -> list[Path]:
    """Raises OSError: of another user's, for one, which `glob` takes for an empty one."""
    try:
        return sorted(path for path in (directory / "log").iterdir() if path.suffix == ".log")[:_MOST_FILES]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _run(arguments: argparse.Namespace) -> int:
    followed, silent = [], []
    for where in running.named_or_running(calls.given(arguments)):
        directory = service_name.directory_of(where)
        if directory is None:
            raise errors.InvalidArgumentError(f"logs: {shortened(where)} is no directory: run this on its machine")
        try:
            if not directory.is_dir():
                raise errors.NotFoundError(f"logs: {plain(str(directory))}: no such directory")
            found = _logs_in(directory)
            if not found and (files := whose_files.others(directory)):
                raise errors.NotFoundError(f"logs: {plain(str(directory))} is {files}")
        except (OSError, ValueError) as error:  # longer than a path can be, for one
            raise errors.InvalidArgumentError(f"logs: {shortened(where)}: {durable.why_not_used(error)}") from error
        by_hand = None if any(path.name == _NODES for path in found) else logged_to.read(directory)
        if by_hand is not None:
            followed.append(FollowedLog(by_hand, "node: " if found else ""))
        elif not any(path.name == _NODES for path in found):
            silent.append(f"{plain(str(directory))}{_elsewhere(directory)}")
        followed += [FollowedLog(path, f"{path.stem}: " if found[1:] else "") for path in found]
    if not followed:
        raise errors.NotFoundError(f"{', '.join(silent)}: nothing has been logged there ({_ELSEWHERE})")
    if silent:
        said = f"{', '.join(silent)}: its node has logged nothing there ({_ELSEWHERE})"
        print(f"tfquiver: {said}", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        for one in followed:
            stack.callback(one.close)
            for line in one.last(arguments.lines):
                print(line, flush=arguments.follow)
        while arguments.follow:
            lines = [line for one in followed for line in one.more()]
            if lines:
                print("\n".join(lines), flush=True)
            else:
                _pause()
    return 0


def _pause() -> None:
    """Raises BrokenPipeError: whoever read this has left, as in `tfquiver logs --follow | head`. Else only the next
    line would say so, which may never come."""
    watched = select.poll()
    watched.register(sys.stdout.fileno(), 0)
    if watched.poll(_POLL_S * 1000):
        raise BrokenPipeError
