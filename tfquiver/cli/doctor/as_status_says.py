"""What `tfquiver status` calls a problem, for who asks `doctor` alone: of what the other looks have not told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfquiver import errors
from tfquiver.cli.doctor.finding import Finding, ok, skip, warn
from tfquiver.cli.status_asked_watched_explained import status, up_away
from tfquiver.cli.status_tables_and_warnings import nodes_view, status_view
from tfquiver.plain_text import of_error

_WHAT = "as status says"
_DO = "`tfquiver status` has the figures, `tfquiver explain NAME` says why"


def findings(where: str, token: str) -> Iterator[Finding]:
    """None where the coordinator does not answer: that is told already."""
    try:
        collected = status.collect(where, token)
    except (errors.UnavailableError, errors.UnauthenticatedError):
        return
    except errors.TfquiverError as error:
        yield skip(_WHAT, of_error(error))
    else:
        yield from of(collected)


def of(collected: Mapping[str, Any]) -> Iterator[Finding]:
    """Of what `status.collect` gave (pure). Nodes that are lost or silent, the log and the policy: looks of their own
    tell of those."""
    if not any(node["quota_bytes"] for node in collected["nodes"]):
        return
    of_nodes = nodes_view.problems(collected["nodes"], collected["lost_nodes"])
    known = {*of_nodes, up_away.said(collected.get("up"), "node")} - {""}
    troubles = status_view.problems({**collected, "coordinator_trouble": "", "policy_trouble": ""})
    found = [problem for problem in troubles if problem not in known]
    for problem in found:
        yield warn(_WHAT, problem, _DO)
    if not found:
        yield ok(_WHAT, "no further problem" if known else "no problem (`tfquiver status` has the figures)")
