"""The demo as a person runs it, and as a person interrupts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import leaks

pytest.importorskip("gcp_storage_emulator")
pytest.importorskip("mlxtend")


@contextmanager
def start(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "tfquiver.cli.main", "demo", "--quick", f"--png={tmp_path / 'demo.png'}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch), "COLUMNS": "80"},
    ) as demo:
        try:
            yield demo
        finally:
            demo.kill()  # a test that failed must not wait for it


def read_until(demo: subprocess.Popen[str], text: str) -> None:
    assert demo.stdout is not None
    said = []
    for line in demo.stdout:
        said.append(line)
        if text in line:
            return
    pytest.fail(f"the demo never said {text!r}:\n{''.join(said)}")


def test_every_trial_sees_everything_each_byte_leaves_the_store_once_and_it_is_no_slower(tmp_path: Path) -> None:
    figures = tmp_path / "demo.json"
    with start(tmp_path, f"--json={figures}") as demo:
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    assert all(len(line) <= 80 for line in said.splitlines())
    result = json.loads(figures.read_text())
    cached, direct = result["rounds"]
    everything = [result["records"]] * result["epochs"]
    for trial in cached["trials"] + direct["trials"]:
        assert trial["records_per_epoch"] == trial["distinct_per_epoch"] == everything
        assert trial["accuracy"] > 0.2
    assert cached["traffic"]["payload_bytes"] <= 1.02 * result["dataset_bytes"]
    assert direct["traffic"]["payload_bytes"] == 3 * result["epochs"] * result["dataset_bytes"]
    assert cached["hit_ratio"] == 1.0
    assert cached["wall_s"] < direct["wall_s"]
    for one in (cached, direct):
        times, left = zip(*one["left_store"], strict=True)
        assert list(times) == sorted(times) and list(left) == sorted(left)
        assert left[-1] == one["traffic"]["payload_bytes"]
    assert "fewer bytes left the store" in said
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "scratch").iterdir()) == []


def to_itself(demo: subprocess.Popen[str]) -> None:
    demo.send_signal(signal.SIGINT)


def twice(demo: subprocess.Popen[str]) -> None:
    demo.send_signal(signal.SIGINT)
    demo.send_signal(signal.SIGINT)


def terminate(demo: subprocess.Popen[str]) -> None:
    demo.terminate()


@pytest.mark.parametrize(
    ("moment", "interrupt"),
    [
        ("preparing digits", to_itself),
        ("starting coordinator", terminate),
        ("three trials read through tfquiver", twice),
        ("an epoch is done", to_itself),
    ],
)
def test_interrupted_demo_leaves_nothing(
    tmp_path: Path, moment: str, interrupt: Callable[[subprocess.Popen[str]], None]
) -> None:
    before = leaks.look()
    with start(tmp_path) as demo:
        read_until(demo, moment)
        interrupt(demo)
        demo.communicate()
    assert demo.returncode == 130
    assert leaks.await_gone(before, grace_s=0.0) == []
    assert list((tmp_path / "scratch").iterdir()) == []
