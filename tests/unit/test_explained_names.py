"""Which names `tfquiver explain` takes."""

from __future__ import annotations

import json
from typing import Any

from tfquiver.cli.status_asked_watched_explained import explained_names


def session(job: str, digest_id: str = "aa") -> dict[str, Any]:
    return {"job": job, "session_key": "key", "digest_id": digest_id}


def test_those_of_which_something_is_decided_are_listed() -> None:
    settings = [
        {"name": "read", "digest_id": "aa", "cache": {"mode": "unset"}},
        {"name": "set", "digest_id": "bb", "cache": {"mode": "lru"}},
        {"name": "neither", "digest_id": "cc", "cache": {"mode": "unset"}},
    ]
    told = explained_names.names([session("sweep/b"), session("sweep/a"), session("sweep/b")], settings)
    assert told == {"jobs": ["sweep/b", "sweep/a"], "datasets": ["read", "set"]}
    assert explained_names.lines(told) == [
        "jobs: sweep/b, sweep/a",
        "data sets: read, set",
        "`tfquiver explain NAME` says why one has what it has",
    ]
    twice = [one | {"name": "read", "digest_id": f"{at}{'0' * 63}"} for at, one in enumerate(settings)]
    told = explained_names.names([], twice)
    assert told["datasets"] == ["read (100000000000)"], "it was listed by a name that several have"
    assert explained_names.lines(told)[-1].startswith(
        "`tfquiver explain NAME` (of those with digits in brackets: these)"
    )
    [nothing] = explained_names.lines(explained_names.names([], settings[2:]))
    assert "nothing is decided" in nothing


def test_a_job_is_found_by_the_name_that_its_own_code_has() -> None:
    sessions = [session("sweep/run1"), session("sweep/run1"), session("other/run2"), session("sweep/run2")]
    assert explained_names.meant("run1", sessions) == {"sweep/run1"}
    assert explained_names.meant("run2", sessions) == {"sweep/run2", "other/run2"}, "which is said to be unknown"
    assert explained_names.meant("un1", sessions) == set()
    unnamed = {"job": "sweep/job-0123456789ab", "session_key": f"0123456789ab{'0' * 20}-program"}
    assert explained_names.meant("program-0123", [*sessions, unnamed]) == {"sweep/job-0123456789ab"}


def test_a_job_without_a_name_is_called_as_the_tables_call_it() -> None:
    digits = "0123456789ab"
    key = f"{digits}{'0' * 20}-program"
    sessions = [{"job": f"{owner}job-{digits}", "session_key": key} for owner in ("", "sweep/")] + [session("sweep/a")]
    text = f"job-{digits}: not probed; job-{'f' * 12} has gone, and 'myjob-{digits}x' and sweep/a have names"
    assert explained_names.as_shown(text, sessions) == text.replace(f"job-{digits}:", "program-0123:")
    assert explained_names.as_shown(f"known are 'sweep/job-{digits}'", sessions) == "known are 'sweep/program-0123'"
    assert explained_names.as_shown(f"'other/job-{digits}'", sessions) == f"'other/job-{digits}'"


def test_a_program_with_a_name_of_any_characters_leaves_json_what_it_was() -> None:
    digits, program = "0123456789ab", 'a "b", "c\\\n'
    sessions = [{"job": f"job-{digits}", "session_key": f"{digits}{'0' * 20}-{program}"}]
    told = explained_names.as_shown(json.dumps({"name": f"job-{digits}", "policy": "benefit"}), sessions, is_json=True)
    assert json.loads(told) == {"name": f"{program}-0123", "policy": "benefit"}
