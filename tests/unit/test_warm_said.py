"""What `tfquiver warm` says when all nodes are done, and its exit code."""

from __future__ import annotations

import pytest

from tfquiver.cli.dataset_commands import commands, warm
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, node_pb2, types_pb2

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
    size = f"{2 * each_bytes / 1e6:.0f} MB"
    assert capsys.readouterr().out == f"train: {size} of {size} are resident\n"


def test_a_node_that_is_not_there_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    """It said 171.3 of 171.3 MB, and that all was well."""
    assert warm._say(DATASET, {"node a": progress(80_000_000), "node b": progress(90_000_000)}) == warm.NOT_ALL
    said = capsys.readouterr().out
    assert said.startswith("train: 170 MB of 200 MB are resident; 30.0 MB are not: whoever reads them reads the ")
    assert "30.0 MB are for nodes that are not there: see tfquiver status" in said


def test_what_a_node_lacks_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"node a": progress(100_000_000), "node b": progress(100_000_000, 50_000_000)}
    assert warm._say(DATASET, told) == warm.NOT_ALL
    assert "150 MB of 200 MB" in (said := capsys.readouterr().out)
    assert "node b lacks 25 of 50 shards: it does not say why" in said and "not there" not in said


def test_a_data_set_that_is_ready_in_part_says_what_is_missing_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    """It said `Ready; 145.9 MB of 200.0 MB are resident`, which reads like success."""
    named = named_datasets_pb2.NamedDataset(state=named_datasets_pb2.NamedDataset.STATE_READY, dataset=DATASET)
    named.spec.name, named.resident_bytes = "images", 145_900_000
    assert commands._say(named, as_json=False) == 0
    said = capsys.readouterr().out
    assert said.startswith("images: Ready, in part; 146 MB of 200 MB are resident; 54.1 MB are not: ")
    assert "`tfquiver dataset prefetch images` reads what fits" in said
    named.reason = "there is no more room"
    commands._say(named, as_json=False)
    said = capsys.readouterr().out
    assert "54.1 MB are not" in said and said.endswith(": there is no more room\n") and "prefetch" not in said
    commands._say(named, as_json=False, said="there is no more room")
    said = capsys.readouterr().out
    assert "54.1 MB are not" in said and "no more room" not in said, "standard error has it, since it was waited for"
    named.resident_bytes = DATASET.size_bytes
    named.reason = ""
    commands._say(named, as_json=False)
    assert capsys.readouterr().out == "images: Ready; 200 MB of 200 MB are resident\n"


def test_what_had_no_room_at_first_and_is_resident_now_is_no_contradiction(capsys: pytest.CaptureFixture[str]) -> None:
    """`there is no more room` on standard error, and behind it `Ready; 200.0 MB of 200.0 MB are resident`."""
    named = named_datasets_pb2.NamedDataset(state=named_datasets_pb2.NamedDataset.STATE_READY, dataset=DATASET)
    named.spec.name, named.resident_bytes, named.reason = "images", DATASET.size_bytes, "there is no more room"
    commands._say(named, as_json=False, said="there is no more room")
    assert capsys.readouterr().out == "images: Ready; 200 MB of 200 MB are resident by now\n"


def test_of_an_empty_data_set_all_is_resident(capsys: pytest.CaptureFixture[str]) -> None:
    """`prefetch` and `prefetch --check` failed for ever."""
    named = named_datasets_pb2.NamedDataset(state=named_datasets_pb2.NamedDataset.STATE_READY, resident_bytes=0)
    assert not commands._is_resident(named), "it is not scanned yet"
    named.dataset.name = "empty"
    assert commands._is_resident(named)
    commands._say(named, as_json=False)
    assert "in part" not in capsys.readouterr().out
