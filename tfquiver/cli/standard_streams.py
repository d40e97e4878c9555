"""Standard input, output and error of a command, as it finds them: closed, on a full disk, read by somebody who leaves,
or of an encoding that has few characters."""

from __future__ import annotations

import codecs
import ctypes
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from tfquiver import closed_streams, errors

_OUTPUT, _ESCAPED = "standard output", "tfquiver-escaped"


class _Output(io.TextIOWrapper):
    """Raises BrokenPipeError, or the typed error of a failed write that names standard output."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise _typed(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise _typed(error) from error


def prepare() -> None:
    """To be called first. What is closed takes and gives nothing; what the encoding does not have is escaped, as Python
    does on standard error."""
    closed_streams.opened()
    codecs.register_error(_ESCAPED, _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        at_once, a_line = sys.stdout.write_through, sys.stdout.line_buffering
        output: Any = open(sys.stdout.fileno(), "wb", buffering=0 if at_once else -1, closefd=False)  # noqa: SIM115
        sys.stdout = _Output(output, sys.stdout.encoding, _ESCAPED, line_buffering=a_line, write_through=at_once)


@contextmanager
def for_what_comes_of_it() -> Iterator[None]:
    """What is printed inside goes to standard error: code of others prints what it likes, and whoever reads what a
    command makes of that, as JSON, would find it in front."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what libraries have printed, and C keeps
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def written() -> Iterator[None]:
    """What was printed inside is written: raises what says that it is not, as to print does. Not after an error."""
    try:
        yield
    except SystemExit:  # of the arguments, as after --help
        sys.stdout.flush()
        raise
    sys.stdout.flush()


def leave() -> None:
    """To be called last. What cannot be written goes nowhere: Python would say so at exit, in a way of its own, or make
    the exit code another one."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, errors.TfquiverError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _typed(error: OSError) -> Exception:
    return error if isinstance(error, BrokenPipeError) else errors.from_os_error(error, _OUTPUT)


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    """Of a name that is no text, its bytes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    made = b""
    for character in error.object[error.start : error.end]:
        escape = "surrogateescape" if "\udc80" <= character <= "\udcff" else "backslashreplace"
        made += character.encode("ascii", escape)
    return made, error.end
