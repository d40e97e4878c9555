"""A store that is slow or hangs is a problem where a job waits for it, and only there."""

from __future__ import annotations

from typing import Any

import pytest

from tfquiver.cli.status_tables_and_warnings import store_view

STORE = {"bytes_per_s": 3e5, "most_bytes_per_s": 15e6, "oldest_ms": 42_400}


def session(job: str, stall_share: float | None, readers: int = 1) -> dict[str, Any]:
    waits = {} if stall_share is None else {"stall_share": stall_share}
    return {"job": job, "session_key": "k", "readers": readers, **waits}


def test_who_waits_for_it_is_named_with_what_to_do() -> None:
    [told] = store_view.problems(STORE, [session("a", 1.0), session("b", 0.02), session("a", 1.0)])
    assert told.startswith(
        "1 job waits while the object store is slow or hangs: a (100% of its time); a read there took"
    )
    assert "took 42 s or more lately, and it gives 300 kB/s (in the last hour up to 15.0 MB/s)" in told
    assert "tfquiver doctor --store GLOB" in told


def test_of_many_some_are_named() -> None:
    [told] = store_view.problems(STORE, [session(f"j{number}", 0.7) for number in range(9)])
    assert told.startswith("9 jobs wait") and "j2 (70% of its time) and 6 more;" in told


@pytest.mark.parametrize(
    ("store", "sessions"),
    [
        (STORE, []),
        (STORE, [session("a", 0.3)]),
        (STORE, [session("a", None)]),
        (STORE, [session("a", 1.0, readers=0)]),
        (STORE | {"oldest_ms": 4_000}, [session("a", 1.0)]),
        ({}, [session("a", 1.0)]),  # of an older coordinator
    ],
)
def test_else_there_is_none(store: dict[str, Any], sessions: list[dict[str, Any]]) -> None:
    assert list(store_view.problems(store, sessions)) == []
