"""Records for tests of the commit log: shards that one session has acknowledged."""

from __future__ import annotations

from pathlib import Path

from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.commit_log.log_file import parse


def acked(number: int) -> CommitRecord:
    return CommitRecord(shards_acked=log_pb2.ShardsAcked(session_id="s", shards=[number]))


def some(total: int) -> list[CommitRecord]:
    return [acked(total)]


def on_disk(path: Path) -> list[CommitRecord]:
    return parse(path.read_bytes(), "log")[0]
