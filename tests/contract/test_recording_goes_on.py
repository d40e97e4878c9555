"""A recording of days does not end because its file cannot be written for a moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from tfquiver import durable
from tfquiver.cli.main import main
from tfquiver.cli.sim_plan_trace_commands import trace
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc


class Idle(coordinator_pb2_grpc.CoordinatorServicer):
    def ListSessions(self, request: Any, context: Any) -> pb.ListSessionsReply:
        return pb.ListSessionsReply()

    def ListNodes(self, request: Any, context: Any) -> pb.ListNodesReply:
        return pb.ListNodesReply()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(Idle(), server)
    server.add_insecure_port(f"unix:{tmp_path}/socket")
    server.start()
    yield f"unix:{tmp_path}/socket"
    server.stop(None).wait()


def test_a_disk_that_is_full_for_a_moment(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write, times = durable.write, list[Path]()

    def full_at_second(path: Path, data: Any) -> None:
        times.append(path)
        if len(times) == 2:
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr(durable, "write", full_at_second)
    monkeypatch.setattr(trace, "_POLL_S", 0.05)
    monkeypatch.setattr(trace, "_WRITE_S", 0.1)
    file = tmp_path / "trace.json"
    assert main(["trace", "record", str(file), "--service", address, "--for", "1s"]) == 0
    assert "not written, goes on" in capsys.readouterr().err
    assert len(times) > 3
    assert json.loads(file.read_text())["sees"] == "measured"
