"""How far a simulation has come is told where nobody sees a bar."""

from __future__ import annotations

import re
import time

import pytest

from tfquiver.cli.sim_plan_trace_commands.progressing import Progressing


def test_it_says_so_every_while_where_it_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    said, deadline = "", time.monotonic() + 30
    with Progressing(3, every_s=0.01) as bar:
        bar.begin("fifo, benefit", lambda: 7200.0, 36000.0)
        bar.ended(1)
        while "1 of 3" not in said and time.monotonic() < deadline:
            said += capsys.readouterr().err
    line = r"tfquiver: fifo, benefit: 1 of 3 jobs have ended, 2\.0 h of at least 10\.0 h simulated, after [0-9.]+ s\n"
    assert re.search(line, said)


def test_one_that_is_short_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Progressing(1) as bar:
        bar.begin("fifo, benefit", lambda: 0.0, 1.0)
    assert capsys.readouterr().err == ""
