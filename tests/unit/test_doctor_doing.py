"""What doctor is looking at is said where it takes its time."""

from __future__ import annotations

import time

import pytest

from tfquiver.cli.doctor.doing import Doing


def test_a_look_that_takes_its_time_says_which_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    said, deadline = "", time.monotonic() + 30
    with Doing(every_s=0.01) as doing:
        doing.looks_at("this machine")
        doing.looks_at("TensorFlow and the op")
        while "and the op, 0 s\n" not in said and time.monotonic() < deadline:
            said += capsys.readouterr().err
    assert "tfquiver: looking at TensorFlow and the op, 0 s\n" in said


def test_quick_ones_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Doing() as doing:
        doing.looks_at("this machine")
    assert capsys.readouterr().err == ""
