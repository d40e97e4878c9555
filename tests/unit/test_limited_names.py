"""Which jobs `tfquiver limit` means."""

from __future__ import annotations

import pytest

from tfquiver import errors
from tfquiver.cli.limit import named

KNOWN = {name: name for name in ("sweep/b2", "sweep/a/c", "one/run", "two/run", "plain")} | {"job-0123": "train-0123"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("b2", "sweep/b2"), ("sweep/b2", "sweep/b2"), ("a/c", "sweep/a/c"), ("plain", "plain"),
        ("train-0123", "job-0123"), ("2", "2"), ("yet/to/come", "yet/to/come"),
    ],
)  # fmt: skip
def test_a_job_is_found_by_the_name_that_its_own_code_has(typed: str, meant: str) -> None:
    assert named(typed, KNOWN) == meant


def test_of_several_none_is_limited_by_chance() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="'run' may be one of 'one/run', 'two/run': say which"):
        named("run", KNOWN)
    assert named("run", KNOWN | {"run": "run"}) == "run", "its whole name"
