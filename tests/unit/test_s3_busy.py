from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from tfquiver.stores import s3_errors
from tfquiver.stores.attempts import Attempts, Busy, Transient, on_busy


@pytest.mark.parametrize("code", ["SlowDown", "503", "429", "Throttling"])
def test_s3_that_asks_for_less_is_heard(code: str) -> None:
    error = ClientError({"Error": {"Code": code, "Message": "reduce your request rate"}}, "GetObject")
    assert isinstance(s3_errors.classify("s3://bucket/f", error), Busy)


def test_whoever_reads_is_told_once_for_each_refusal_and_of_nothing_else() -> None:
    told: list[str] = []
    failures = [Busy("slow down"), Transient("reset"), Busy("slow down")]

    def attempt(_: float) -> str:
        if failures:
            raise failures.pop()
        return "done"

    token = on_busy.set(lambda: told.append("busy"))
    try:
        assert Attempts(pause=lambda seconds: False).run("s3://bucket/f", 20.0, attempt) == "done"
    finally:
        on_busy.reset(token)
    assert told == ["busy", "busy"]
