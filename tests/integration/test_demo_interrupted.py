"""The demo as a person interrupts it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import leaks
from tests.support.demo_process import read_until, start

pytest.importorskip("gcp_storage_emulator")
pytest.importorskip("mlxtend")

pytestmark = pytest.mark.long


def to_itself(demo: subprocess.Popen[str]) -> None:
    demo.send_signal(signal.SIGINT)


def twice(demo: subprocess.Popen[str]) -> None:
    demo.send_signal(signal.SIGINT)
    demo.send_signal(signal.SIGINT)


def terminate(demo: subprocess.Popen[str]) -> None:
    demo.terminate()


def hang_up_and_again(demo: subprocess.Popen[str]) -> None:
    """As a terminal that is closed does: what it made stayed on the disk."""
    demo.send_signal(signal.SIGHUP)
    demo.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("moment", "interrupt"),
    [
        ("preparing digits", to_itself),
        ("starting coordinator", terminate),
        ("three trials read through tfquiver", twice),
        ("an epoch is done", to_itself),
        ("an epoch is done", hang_up_and_again),
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
