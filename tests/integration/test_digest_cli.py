"""`tfquiver digest`, as a person types it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.records import stream
from tfquiver.cli.main import main
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats.record_weights import opened

SIZES = ["--min_shard=200", "--target_shard=1000", "--max_shard=5KB"]
PAYLOADS = [bytes([i % 256]) * (i % 100) for i in range(500)]


@pytest.fixture
def built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "train-1").write_bytes(stream(PAYLOADS))
    (tmp_path / "train-2").write_bytes(gzip.compress(stream(PAYLOADS)))
    output = tmp_path / "train.tfqd"
    assert main(["digest", "build", str(tmp_path / "train-?"), "-o", str(output), *SIZES]) == 0
    said = capsys.readouterr()
    assert "digest id" in said.out and said.err == "", "a bar is for terminals"
    return output


def test_build_leaves_the_digest_and_nothing_else(built: Path) -> None:
    digest = Digest.open(built)
    digest.verify_ids()
    assert (digest.name, digest.num_records) == ("train", 1000)
    assert digest.num_shards > 20
    assert sorted(path.name for path in built.parent.iterdir()) == ["train-1", "train-2", "train.tfqd"]


def test_show(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", "show", str(built)]) == 0
    assert "gzip" in capsys.readouterr().out
    assert main(["digest", "show", "--json", str(built)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["digest_id"] == Digest.open(built).digest_id.hex()
    assert shown["records"] == 1000


def test_weights_are_bound_to_the_data(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, output = built.parent / "w.npy", built.parent / "w.tfqw"
    np.save(given, np.arange(1000))
    assert main(["digest", "weights", str(built), str(given), "-o", str(output)]) == 0
    assert "weights of 1000 records of 'train'" in capsys.readouterr().out
    weights = opened(output)
    assert weights.content_root == Digest.open(built).content_root
    assert weights.values.tolist() == list(range(1000))
    np.save(given, np.arange(999))
    assert main(["digest", "weights", str(built), str(given), "-o", str(output)]) != 0
    assert "999 weights; data set 'train' has 1000 records" in capsys.readouterr().err
    assert opened(output).values.tolist() == list(range(1000))


def test_show_says_where_a_shard_is(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard = Digest.open(built).shard(9)
    assert main(["digest", "show", "--json", "--shard", "9", str(built)]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "shard": 9, "file": shard.file.uri, "offset": shard.offset, "length_bytes": shard.length_bytes,
        "records": shard.records,
    }  # fmt: skip
    assert main(["digest", "show", "--shard", "9", str(built)]) == 0
    assert f"{shard.offset:,}" in capsys.readouterr().out
    assert main(["digest", "show", "--shard", "100000", str(built)]) == 1
    assert "has no shard 100000" in capsys.readouterr().err


def test_verify(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", "verify", str(built)]) == 0
    assert main(["digest", "verify", "--content", str(built)]) == 0
    assert "have their hashes" in capsys.readouterr().err


def test_verify_content_names_what_changed_and_what_is_gone(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (built.parent / "train-1").write_bytes(stream(PAYLOADS[::-1]))
    (built.parent / "train-2").unlink()
    assert main(["digest", "verify", "--content", str(built)]) == 1
    said = capsys.readouterr().err
    assert "train-1: the file has changed" in said
    assert "train-2: the file is gone" in said


def test_a_damaged_digest_is_refused(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(built.read_bytes())
    data[-1] ^= 1
    built.write_bytes(data)
    for command in (["show"], ["verify"]):
        assert main(["digest", *command, str(built)]) == 1
        assert f"tfquiver: {built}: padding after section 'records' is not zero" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{tmp}/nope-*"], "no match for {tmp}/nope-*"),
        (["{tmp}"], "{tmp}: a directory"),
        (["quux://b/f"], "no store for quux://"),
        (["{tmp}/f", "--min_shard=9MiB"], "min <= target"),
        (["{tmp}/f", "--min_shard=lots"], "not a size: 'lots'"),
        (["{tmp}/bad"], "bad: damaged length CRC of the record at offset 0; is it a TFRecord file?"),
    ],
)
def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    (tmp_path / "f").write_bytes(stream([b"x"]))
    (tmp_path / "bad").write_bytes(b"not a TFRecord file")
    named = [argument.format(tmp=tmp_path) for argument in arguments]
    assert main(["digest", "build", *named, "-o", str(tmp_path / "o.tfqd")]) == 1
    assert message.format(tmp=tmp_path) in capsys.readouterr().err
    assert not (tmp_path / "o.tfqd").exists()


def test_an_output_directory_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", "build", "x", "-o", str(tmp_path / "no" / "o.tfqd")]) == 1
    assert f"--output={tmp_path}/no/o.tfqd: there is no directory {tmp_path}/no: make it" in capsys.readouterr().err
