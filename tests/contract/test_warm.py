"""Processes that are forked where others are started anew: the same command line does the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import leaks, warm
from tfquiver.node_daemon_and_notes_in_directories import starting

_SAYS = """
import json, os, random, sys, tempfile
print(json.dumps([__name__, sys.argv, sys.path[0], os.getcwd(), os.environ.get("SAID"), os.environ.get("HOME"),
    tempfile.gettempdir(), sys.stdin.read(), os.umask(0)]))
print("to the other", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("way", ["code", "module"])
def test_it_does_what_a_new_one_does(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "says.py").write_text(_SAYS)
    command = [sys.executable, *(["-c", _SAYS] if way == "code" else ["-m", "says"]), "3", "two words"]
    monkeypatch.delenv("HOME", raising=False)
    more: dict[str, Any] = {
        "cwd": tmp_path, "env": {**os.environ, "SAID": "before", "TMPDIR": str(tmp_path)}, "input": "told",
        "capture_output": True, "text": True, "timeout": 60,
    }  # fmt: skip
    anew, forked = subprocess.run(command, check=False, **more), warm.run(command, **more)
    assert (forked.returncode, forked.stdout, forked.stderr) == (3, anew.stdout, "to the other\n")
    assert anew.stderr == forked.stderr


def test_it_is_seen_under_its_command_line_and_ends_as_it_is_told() -> None:
    command = [sys.executable, "-c", "print('there', flush=True); import time; time.sleep(60)", "argument"]
    before = leaks.look()
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -2)):
        with warm.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None and process.stdout.readline() == b"there\n"
            assert [word for word in psutil.Process(process.pid).cmdline() if word] == command
            assert process.poll() is None
            process.send_signal(number)
            assert process.wait(60) == code == process.poll()
    assert leaks.await_gone(before) == []


def test_one_that_is_left_is_seen_and_ended() -> None:
    before = leaks.look()
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with warm.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        (left,) = (one for one in leaks.await_gone(before, grace_s=0) if one.startswith("process"))
        assert left.startswith(f"process {process.pid}: {sys.executable} -c import time")
        assert process.wait(60) == -signal.SIGKILL


def test_who_does_not_end_in_time_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        warm.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.1)


def test_siblings_draw_other_numbers() -> None:
    code = "import random, numpy; print(random.random(), numpy.random.rand())"
    said = {warm.run([sys.executable, "-c", code], capture_output=True, timeout=60).stdout for _ in range(3)}
    numbers = [number for line in said for number in line.split()]
    assert len(set(numbers)) == 6


def test_there_may_be_more_to_import(tmp_path: Path) -> None:
    (tmp_path / "only_there.py").write_text("print('imported')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = warm.run([sys.executable, "-c", "import only_there"], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "imported\n")


def test_what_is_read_at_pythons_start_can_be_another() -> None:
    command = [sys.executable, "-c", "print(hash('a'))"]
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    forked, anew = (
        start(command, env=env, capture_output=True, text=True, timeout=60) for start in (warm.run, subprocess.run)
    )
    assert forked.stdout == anew.stdout


_DAEMON = """
import os, signal, sys
session = os.stat(f"/proc/{os.getsid(0)}") and os.getsid(0) != int(sys.argv[1])
print(session, sys.stdin.read(), os.getcwd(), sys.argv[2:], [signal.getsignal(one) for one in (2, 3, 15)], flush=True)
signal.pause()
"""


def test_a_daemon_is_nobodys_child_in_a_session_of_its_own(tmp_path: Path) -> None:
    said, before = [], leaks.look()
    for start in (subprocess.Popen, warm.Popen):
        command = starting.by_shell([sys.executable, "-c", _DAEMON, str(os.getsid(0)), "argument"])
        with start(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            cwd="/",
        ) as shell:  # fmt: skip
            assert shell.stdout is not None
            said.append(shell.stdout.readline())
        assert shell.returncode == 0, "nobody asks how it ended"
        ((daemon, _),) = leaks._processes() - before.processes
        assert psutil.Process(daemon).ppid() not in (shell.pid, os.getpid())
        psutil.Process(daemon).kill()
        assert leaks.await_gone(before) == []
    assert said[0] == said[1] != b""


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_how_a_daemon_ended_is_told_alike(code: str) -> None:
    ended = []
    for start in (subprocess.Popen, warm.Popen):
        command = starting.by_shell([sys.executable, "-c", code])
        with start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as shell:
            shell.communicate(b"\n", timeout=60)
        ended.append(shell.returncode)
    assert ended[0] == ended[1] in (3, 137)
