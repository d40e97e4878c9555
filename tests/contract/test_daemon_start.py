"""A daemon that ends in its start: whoever started it is told how, and its last words."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from tfquiver import errors
from tfquiver.daemon import daemon


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo 'no memory' >&2; kill -KILL $$",
            ["killed by SIGKILL, as the kernel does when", "node.log:\nno memory"],
        ),
        ("kill -SEGV $$", ["ended at its start (killed by SIGSEGV); it has said nothing in "]),
        ("echo hello", ["said what no node says ('hello\\n')"]),
        ("echo 'bad flag' >&2; exit 3", ["ended at its start (exit code 3); the end of ", "node.log:\nbad flag"]),
    ],
)
def test_how_it_ended_is_said(script: str, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    log = tmp_path / "cache" / "log" / "node.log"
    log.parent.mkdir(parents=True)
    log.write_text("what a node said yesterday\n")
    monkeypatch.setattr(sys, "executable", str(program))
    before = psutil.Process().children()
    with pytest.raises(errors.UnavailableError) as raised:
        daemon.find_or_start(tmp_path / "cache")
    for words in said:
        assert words in str(raised.value)
    assert "yesterday" not in str(raised.value)
    assert psutil.Process().children() == before


def test_one_that_is_not_ready_in_time_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid; echo slow >&2; exec sleep 60\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(errors.DeadlineError, match=r"is not ready in time; the end of .*node.log:\nslow"):
        daemon.find_or_start(tmp_path / "cache", timeout_s=1.0)
    slow = psutil.Process(int((tmp_path / "pid").read_text()))
    assert slow.is_running() and slow.parent() != psutil.Process()
    slow.kill()
