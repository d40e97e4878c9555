"""What processes of tests side by side need is imported once for all of them; each has forks of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import leaks, turns, warm, warm_roots

ROOT = Path(__file__).resolve().parents[2]
_SAYS = """
import json, os, sys
mark = [one for one in open("/proc/self/environ").read().split(chr(0)) if one.startswith("TFQUIVER_TEST_RUN=")]
fds = [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
print(json.dumps([mark, fds, os.getcwd(), os.stat("/proc/self/ns/mnt").st_ino, os.environ["TFQUIVER_TEST_RUN"],
    sorted({"pytest", "tensorflow"} & set(sys.modules))]))
"""


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(turns.FOLDER, str(tmp_path))
    end = warm_roots.begin(tmp_path)
    try:
        yield
    finally:
        end()


def said(forks: warm._Warm) -> Any:
    reading, writing = os.pipe()
    with open(os.devnull) as nothing, open(reading) as answer:  # noqa: PTH123
        command = [sys.executable, "-c", _SAYS]
        pid = forks.fork(command, os.environ, "/", [nothing.fileno(), writing, 2], daemon=False, netns="")
        os.close(writing)
        told = json.loads(answer.read())
    while forks.ended(pid) is None:
        pass
    return told


@pytest.mark.slow
def test_each_has_forks_of_its_own(roots: None, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.stat("/proc/thread-self/ns/mnt").st_ino  # noqa: PTH116
    for mark in ("0" * 16, "f" * 16):
        with monkeypatch.context() as patch:
            patch.setenv(leaks.MARK, mark)
            forks = warm._Warm("plain", frozenset())
            marked, fds, cwd, mounts, environment, modules = said(forks)
        forks._end()
        assert marked == [f"{leaks.MARK}={mark}"]
        assert fds == [0, 1, 2]
        assert (cwd, mounts, environment, modules) == ("/", mine, mark, [])


@pytest.mark.slow
def test_they_end_with_whoever_began_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(turns.FOLDER, str(tmp_path))
    end = warm_roots.begin(tmp_path)
    forks = warm._Warm("plain", frozenset())
    end()
    warm._await_end(forks._process, 60)
    with pytest.raises((RuntimeError, OSError)):
        said(forks)
    forks._end()


PROBE = """
import os, pathlib, threading
with pathlib.Path(__file__).with_name("imported").open("a") as file:
    file.write(f"{os.getpid()}\\n")
if THREAD:
    threading.Thread(target=threading.Event().wait, daemon=True).start()

def test_a(worker_id):
    with pathlib.Path(__file__).with_name("ran").open("a") as file:
        file.write(f"{worker_id} {os.getpid()}\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("thread", "times"), [(False, 1), (True, 3)], ids=["forks", "a thread"])
def test_files_of_tests_are_imported_once_for_all_processes_of_tests(tmp_path: Path, thread: bool, times: int) -> None:
    """And by each itself, where what is imported cannot be forked."""
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    (folder / "test_probe.py").write_text(f"THREAD = {thread}\n{PROBE}")
    (folder / "test_other.py").write_text("def test_b(): pass\n")
    (tmp_path / "tests" / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(ROOT), "PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile"]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=100, cwd=tmp_path, env=env)
    assert "2 passed" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    imported = (folder / "imported").read_text().split()
    assert len(imported) == len(set(imported)) == times
    worker, pid = (folder / "ran").read_text().split()
    assert worker.startswith("gw")
    assert (pid in imported) == thread


def test_nothing_that_tests_import_starts_a_thread() -> None:
    """Else each of these processes has imported all tests by itself: fifteen seconds of a processor. (A tensor, a data
    set's cardinality or a variable at the level of a module starts TensorFlow's.)"""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("one process: those of pytest -n are forks")
    assert "tests.support.warm_roots" in sys.orig_argv
