"""What a dispatcher's threads do again and again, where it fails each time."""

from __future__ import annotations

import grpc
import pytest

from tfquiver.service.common_to_servers.repeated import attempt


class _Away(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.DEADLINE_EXCEEDED

    def details(self) -> str:
        return "Deadline Exceeded"


def test_who_does_not_answer_is_told_of_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    def step() -> None:
        raise _Away

    for _ in range(100):
        attempt("reaper", step)
    assert caplog.messages == ["reaper: DEADLINE_EXCEEDED: Deadline Exceeded; nothing is done meanwhile"]


def test_what_fails_at_each_pass_is_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    """Where /proc may not be read, say: a traceback every two seconds."""

    def step() -> None:
        raise PermissionError(13, "Permission denied")

    for _ in range(100):
        for name in ("silent machines", "worker reports"):
            attempt(name, step)
    assert [line.partition(":")[0] for line in caplog.messages] == ["silent machines", "worker reports"]
