"""`tfquiver doctor` knows what `tfquiver status` calls a problem, and says nothing twice."""

from __future__ import annotations

from typing import Any

from tests.unit.test_status_tables import told
from tfquiver.cli.doctor import as_status_says
from tfquiver.cli.doctor.finding import Verdict
from tfquiver.cli.status_tables_and_warnings import status_view


def test_what_status_calls_a_problem_doctor_tells() -> None:
    large: dict[str, Any] = told("run")["datasets"][0] | {"cache": {"mode": "uniform"}}
    status = told("run") | {"datasets": [large], "sessions": [], "coordinator_trouble": "the disk is full"}
    assert len(status_view.problems(status)) == 3, "the log, a node that does not answer, and what is too large"
    (found,) = as_status_says.of(status)
    assert found.verdict is Verdict.WARN and found.why.startswith("data set run (1.0 TB) is larger than all quotas")
    assert "`tfquiver status`" in found.do


def test_and_that_there_is_none() -> None:
    status = told("run") | {"datasets": [], "sessions": []}
    (found,) = as_status_says.of(status)
    assert (found.verdict, found.why) == (Verdict.OK, "no further problem"), "of the silent node the other looks tell"
    (found,) = as_status_says.of(status | {"nodes": status["nodes"][:1]})
    assert (found.verdict, found.why) == (Verdict.OK, "no problem (`tfquiver status` has the figures)")
    assert not list(as_status_says.of(status | {"nodes": []})), "that is told already"
