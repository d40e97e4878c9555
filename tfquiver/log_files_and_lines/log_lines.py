"""How a line of a server's log looks: as absl has it, or one JSON object, for machines that read logs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from logging import ERROR, Formatter
from logging import LogRecord as Record
from typing import Any

from absl import flags, logging

from tfquiver.log_files_and_lines import logs
from tfquiver.plain_text import plain

_MOST_LOGGED = 4000  # characters of one message
_MOST_TRACED = 16_000  # of a traceback

flags.disclaim_key_flags()  # it is one of whichever server defines it


def define() -> None:
    """--log_format; before the command line is read."""
    flags.DEFINE_enum(
        "log_format", "text", ["text", "json"], "Lines of the log on standard error: text, or a JSON object each."
    )


class PlainFormatter(logging.PythonFormatter):
    """Names and messages that came from others cannot forge lines of the log, or steer the terminal that shows it."""

    def formatMessage(self, record: Record) -> str:
        return plain(super().formatMessage(record), _MOST_LOGGED)

    def formatException(self, info: Any) -> str:
        return "\n".join(plain(line) for line in super().formatException(info).split("\n"))


class JsonFormatter(Formatter):
    """Fields: time (UTC, RFC 3339), severity, server, pid, where (file:line), message; with an exception traceback.
    Those of tfquiver.log_files_and_lines.logs where a line has them: job, dataset, digest, shard, hash, node,
    suppressed."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self._server = server

    def format(self, record: Record) -> str:
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{second}.{int(record.msecs):03d}Z",
            "severity": record.levelname,
            "server": self._server,
            "pid": record.process,
            "where": f"{record.filename}:{record.lineno}",
            **logs.fields_of(record),
            "message": plain(record.getMessage(), _MOST_LOGGED),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[-_MOST_TRACED:]
        return json.dumps(line)


def formatter(server: str) -> Formatter:
    """By --log_format."""
    return JsonFormatter(server) if is_json() else PlainFormatter()


def is_json(argv: Sequence[str] = ()) -> bool:
    """Whether --log_format says so. `argv`: of a command line that is refused, which may not have been read so far."""
    format_ = flags.FLAGS["log_format"].value if "log_format" in flags.FLAGS else ""
    return format_ == "json" or any(argument.lstrip("-") == "log_format=json" for argument in argv)


def last(server: str, message: str, as_json: bool) -> str:
    """The line of a server that does not start, or ends with an error."""
    if not as_json:
        return f"{server}: {message}"
    caller = sys._getframe(1)
    record = Record(server, ERROR, caller.f_code.co_filename, caller.f_lineno, "%s", (message,), None)
    return JsonFormatter(server).format(record)
