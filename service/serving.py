"""What every server's `main` shares: stop signals, the ready line, life with a parent, byte-size flags."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Coroutine
from decimal import Decimal
from logging import LogRecord as Record
from pathlib import Path
from typing import Any

from absl import app, flags, logging

from tfquiver import errors
from tfquiver.service import server_flags
from tfquiver.trust.plain_text import plain
from tfquiver.wire import addresses

_PR_SET_PDEATHSIG = 1
_MOST_BYTES = (1 << 60) - 1
_SAID_CHARACTERS = 60
_MAX_TOKEN_BYTES = 4096
_MOST_LOGGED = 4000  # characters of one message
_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGTP", start=1):
    _UNITS |= {_letter: 1024**_power, f"{_letter}iB": 1024**_power, f"{_letter}B": 1000**_power}


def parse_bytes(text: str) -> int:
    """`"10GiB"`, `"500MB"`, `"4096"` as bytes. Raises InvalidArgumentError naming the text."""
    match = re.fullmatch(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z]*)\s*", text)
    if not match or match[2] not in _UNITS:
        raise errors.InvalidArgumentError(f"not a size: {shortened(text)}; write for example 500MB, 10GiB or 4096")
    size = int(Decimal(match[1]) * _UNITS[match[2]])
    if size > _MOST_BYTES:
        raise errors.InvalidArgumentError(f"a size of {shortened(text)} is more than any disk has")
    return size


def shortened(text: str) -> str:
    """What a person wrote, in quotes; its beginning when it is long."""
    return repr(text if len(text) <= _SAID_CHARACTERS else text[:_SAID_CHARACTERS] + "...")


def is_size(text: str) -> bool:
    """For flags.register_validator."""
    try:
        parse_bytes(text)
    except errors.InvalidArgumentError:
        return False
    return True


def is_host_port(text: str) -> bool:
    """host:port with a port that exists; an IPv6 address stands in brackets."""
    match = re.fullmatch(r"(?:[^\s:/%]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})", text)
    return match is not None and 0 < int(match[1]) < 1 << 16


def is_address(text: str) -> bool:
    """host:port, or unix:/path."""
    return text.startswith("unix:/") or is_host_port(text)


def die_with_parent() -> None:
    """Asks the kernel to SIGTERM this process when its parent thread ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def announce(server: str, **fields: Any) -> None:
    """The ready line: one JSON object on standard output, for scripts and tests. Whoever waited for it may be gone."""
    line = json.dumps({"server": server, "pid": os.getpid(), **fields}).encode() + b"\n"
    sys.stdout.flush()
    try:
        os.write(sys.stdout.fileno(), line)
    except OSError as error:
        logging.warning("nobody reads the ready line (%s)", error.strerror)


def is_loopback(host: str) -> bool:
    """Is this, as a flag has it, an address that only this machine reaches?"""
    return addresses.is_loopback(host)


def check_exposure(host: str, token_flags: str, has_token: bool, allow_unauthenticated: bool) -> None:
    """A port that asks for no token is for this machine alone, unless somebody says otherwise in words.

    Args:
      host: of --bind_host.
      token_flags: what to give instead, for the message.

    Raises InvalidArgumentError naming the flags.
    """
    if has_token:
        return
    if is_loopback(host):
        logging.warning(
            "no token is asked for: every process of this machine may read, change and remove what is cached (give %s)",
            token_flags,
        )
    elif allow_unauthenticated:
        logging.warning("--allow_unauthenticated: whoever reaches --bind_host=%s may read and change everything", host)
    else:
        raise errors.InvalidArgumentError(
            f"--bind_host={host!r} lets other machines in, and no token is asked for: give {token_flags}, or say "
            "--allow_unauthenticated where nobody else reaches that address"
        )


def read_token(path: str) -> str:
    """What this process shows: first line of the file, or "" when no file is named. Raises InvalidArgumentError."""
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            line = file.readline(_MAX_TOKEN_BYTES + 1).decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise errors.InvalidArgumentError(f"--auth_token_file={path}: the first line is not ASCII text") from error
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise errors.InvalidArgumentError(f"--auth_token_file={path}: {what}") from error
    if not line:
        raise errors.InvalidArgumentError(f"--auth_token_file={path}: the first line is empty")
    if len(line) > _MAX_TOKEN_BYTES or not line.isprintable():
        raise errors.InvalidArgumentError(
            f"--auth_token_file={path}: the first line is longer than {_MAX_TOKEN_BYTES} characters, or not printable"
        )
    if mode & stat.S_IROTH:
        logging.warning("--auth_token_file=%s can be read by every user of this machine: chmod 600", path)
    return line


def stop_event() -> asyncio.Event:
    """An event of the running loop, set by SIGTERM and SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


class PlainFormatter(logging.PythonFormatter):
    """Names and messages that came from others cannot forge lines of the log, or steer the terminal that shows it."""

    def formatMessage(self, record: Record) -> str:
        return plain(super().formatMessage(record), _MOST_LOGGED)

    def formatException(self, info: Any) -> str:
        return "\n".join(plain(line) for line in super().formatException(info).split("\n"))


def run_server(serve: Callable[[], Coroutine[Any, Any, None]], about: str) -> None:
    """A server's entry point: parses flags, logs to standard error; a typed error is one line and exit code 1.

    Args:
      about: what the server is, for `--help`.
    """

    def main(argv: list[str]) -> None:
        logging.use_absl_handler()
        logging.get_absl_handler().setFormatter(PlainFormatter())
        try:
            asyncio.run(serve())
        except errors.TfquiverError as error:
            print(f"{Path(argv[0]).name}: {plain(error, _MOST_LOGGED)}", file=sys.stderr)
            raise SystemExit(1) from error

    flags.FLAGS.set_default("logtostderr", True)
    app.run(main, flags_parser=server_flags.parser(about))
