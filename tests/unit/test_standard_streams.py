"""What `tfquiver` does where its output is closed, read by nobody, on a full disk, or takes few characters."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tfquiver.cli.main import main
from tfquiver.cli.up_stop_logs_clear import whole_cluster

TFQUIVER = [sys.executable, "-m", "tfquiver"]
SHOWS = """
import sys
from tfquiver.cli import standard_streams
standard_streams.prepare()
print(sys.argv[1], "\\u2500")
"""
pytestmark = pytest.mark.slow


def run(*arguments: str, stdout: int, before: Callable[[], None] | None = None) -> tuple[int, str]:
    """Its exit code, and what it says on standard error, but for a token. With output that is buffered, as a person has
    it."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [*TFQUIVER, *arguments], stdout=stdout, stderr=subprocess.PIPE, env=env, text=True, preexec_fn=before
    )
    return done.returncode, re.sub(r"token \(.*\n", "", done.stderr)


@pytest.mark.parametrize("arguments", [["--help"], ["token", "new", "job", "x"]])
def test_a_reader_that_has_left_is_no_trouble_and_the_exit_code_says_so(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        assert run(*arguments, stdout=write) == (141, "")
    finally:
        os.close(write)


@pytest.mark.parametrize("arguments", [["--help"], ["token", "new", "job", "x"]])
def test_a_full_disk_is_named(arguments: list[str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        assert run(*arguments, stdout=full) == (1, "tfquiver: standard output: No space left on device\n")
    finally:
        os.close(full)


def test_closed_streams_are_nowhere() -> None:
    def close() -> None:
        os.closerange(0, 2)

    assert run("token", "new", "job", "x", stdout=subprocess.DEVNULL, before=close) == (0, "")
    code, said = run("token", "new", "no-such-role", "x", stdout=subprocess.DEVNULL, before=close)
    assert code == 2 and "no-such-role" in said, "it is not on what was opened instead"


def test_what_is_for_standard_error_is_nowhere_else() -> None:
    """A token: it stood in the file that the line for the servers is for."""
    done = subprocess.run([*TFQUIVER, "token", "new", "job", "x"], stdout=subprocess.PIPE, preexec_fn=_close_error)
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1


def _close_error() -> None:
    os.close(2)


@pytest.mark.parametrize(("given", "shown"), [("é".encode(), "é".encode()), (b"\xff", b"\xff")])
def test_what_the_encoding_does_not_have_is_escaped_and_a_name_stays_what_it_is(given: bytes, shown: bytes) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", SHOWS, given], env=env, capture_output=True, check=True)
    assert done.stdout == shown + b" \\u2500\n"


def test_a_working_directory_that_is_gone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["up", "cache", "--workers=0"]) == 1
    assert capsys.readouterr().err.startswith("tfquiver: the working directory is no longer there: cd to one that is")


def test_a_cluster_runs_on_where_nobody_hears_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended at its next word, as of a server that it was to start again."""
    with io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True) as full:
        monkeypatch.setattr(sys, "stderr", full)
        with pytest.raises(OSError, match="No space left"):
            print("what others say", file=sys.stderr)
        whole_cluster._say("a server has ended")
