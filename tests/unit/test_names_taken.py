"""What is said of a name that is taken, and of a name that the command took for a source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfquiver.cli.dataset_commands import names
from tfquiver.cli.main import main
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.named_dataset_lifecycle import specs

THERE = pb2.DatasetSpec(name="images", sources=["/data/train-*"])


def asked(**other: object) -> pb2.DatasetSpec:
    spec = pb2.DatasetSpec()
    spec.CopyFrom(THERE)
    for field, value in other.items():
        if field == "sources":
            del spec.sources[:]
            spec.sources.extend([str(value)])
        elif field == "placement":
            spec.placement.CopyFrom(types_pb2.PlacementRule(selector=str(value)))
        else:
            setattr(spec, field, value)
    return spec


def test_a_name_that_is_taken_says_by_what_and_what_to_do() -> None:
    assert specs.taken(THERE, asked(sources="/data/val-*"), failed=False) == (
        "name: images is taken, by a data set of '/data/train-*': choose another name, or delete that one "
        "(tfquiver dataset delete images)"
    )
    said = specs.taken(THERE, asked(sources="/data/train-*.tfrecord"), failed=True)
    assert (
        "of '/data/train-*', which has failed: delete that one (tfquiver dataset delete images), and try again" in said
    )
    said = specs.taken(THERE, asked(format=types_pb2.DATASET_FORMAT_BYTES, placement="rack=r1"), failed=False)
    assert "of '/data/train-*', with other --format and --nodes, --stripe, --rack-local or --replicas: " in said
    assert "--credentials" not in said
    many = pb2.DatasetSpec(name="images", sources=[f"/data/{number}" for number in range(1000)])
    assert len(specs.taken(many, THERE, failed=False)) < 500
    of_digest = pb2.DatasetSpec(name="images", digest_id=bytes(32))
    assert "by a data set of a digest: " in specs.taken(of_digest, THERE, failed=False)


def test_a_name_behind_what_the_shell_has_expanded_is_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).touch()
    nowhere = ["--service", "127.0.0.1:1"]
    assert main(["dataset", "create", "p3", "--source", "a", "b", "p4", *nowhere]) == 1
    said = capsys.readouterr().err
    assert "there is no p4 here. The shell has put 2 files in the place of a pattern" in said
    assert "tfquiver dataset create NAME --source 'PATTERN'" in said


def test_of_a_name_that_nobody_has_those_are_listed_that_failed_too() -> None:
    every = [
        pb2.NamedDataset(spec=pb2.DatasetSpec(name="broken"), state=pb2.NamedDataset.STATE_FAILED, reason="no files"),
        pb2.NamedDataset(
            spec=pb2.DatasetSpec(name="pics"),
            state=pb2.NamedDataset.STATE_READY,
            dataset=types_pb2.Dataset(name="pics"),
        ),
    ]
    said = str(names.none_called("pcis", ["used first as this", "train"], every, False))
    there = "broken (Failed), pics, train, used first as this"
    assert said == f"no data set 'pcis' is registered: did you mean pics? There are {there}"
    assert "'zzz' is registered; there are broken" in str(names.none_called("zzz", ["train"], every, False))
    said = str(names.none_called("broken", ["pics"], every, False))
    assert said == "data set broken has no version yet: it is Failed: no files"


def test_where_there_is_no_data_set_nobody_is_told_of_some_that_may_not_be_read() -> None:
    some = str(names.none_called("zzz", ["train"], [], has_token=True))
    assert some == "no data set 'zzz' is registered that you may read; there are train", "others may be there"
    said = "no data set 'x' is registered, nor any other"
    assert str(names.none_called("x", [], [], has_token=False)) == said, "no token: all of them are told"
    shared = f"{said} that you may read (its owner shares one: tfquiver dataset share)"
    assert str(names.none_called("x", [], [], has_token=True)) == shared
