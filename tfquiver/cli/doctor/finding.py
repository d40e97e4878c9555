"""What one look has found. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.StrEnum):
    OK = "ok"
    WARN = "warn"  # it works, and will surprise somebody
    FAIL = "fail"  # it does not work
    SKIP = "skip"  # nobody knows: it was not tried, or not said


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` was looked at, what it is (`why`), and, where that is not well, what to `do`."""

    verdict: Verdict
    what: str
    why: str
    do: str = ""


def ok(what: str, why: str) -> Finding:
    return Finding(Verdict.OK, what, why)


def warn(what: str, why: str, do: str) -> Finding:
    return Finding(Verdict.WARN, what, why, do)


def skip(what: str, why: str, do: str = "") -> Finding:
    return Finding(Verdict.SKIP, what, why, do)


def fail(what: str, why: str, do: str) -> Finding:
    return Finding(Verdict.FAIL, what, why, do)
