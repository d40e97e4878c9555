"""What `tfquiver warm` says when all nodes are done, and its exit code."""

from __future__ import annotations

import pytest

from tfquiver.cli import warm
from tfquiver.proto.tfquiver.v1 import node_pb2, types_pb2

DATASET = types_pb2.Dataset(name="train", size_bytes=200_000_000, shards=100)


def progress(size_bytes: int, resident_bytes: int | None = None) -> node_pb2.WarmProgress:
    resident_bytes = size_bytes if resident_bytes is None else resident_bytes
    return node_pb2.WarmProgress(
        total_bytes=size_bytes,
        resident_bytes=resident_bytes,
        shards=50,
        resident_shards=50 * resident_bytes // size_bytes,
    )


@pytest.mark.parametrize("each_bytes", [100_000_000, 200_000_000])  # of two nodes: one owner of each shard, two owners
def test_all_of_it(each_bytes: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert warm._say(DATASET, {"node a": progress(each_bytes), "node b": progress(each_bytes)}) == warm.ALL_RESIDENT
    assert "not there" not in capsys.readouterr().out


def test_a_node_that_is_not_there_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    """It said 171.3 of 171.3 MB, and that all was well."""
    assert warm._say(DATASET, {"node a": progress(80_000_000), "node b": progress(90_000_000)}) == warm.NOT_ALL
    said = capsys.readouterr().out
    assert said.startswith("train: 170.0 MB of 200.0 MB are resident\n")
    assert "30.0 MB are for nodes that are not there: see tfquiver status" in said


def test_what_a_node_lacks_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"node a": progress(100_000_000), "node b": progress(100_000_000, 50_000_000)}
    assert warm._say(DATASET, told) == warm.NOT_ALL
    assert "150.0 MB of 200.0 MB" in (said := capsys.readouterr().out)
    assert "node b lacks 25 of 50 shards" in said and "not there" not in said
