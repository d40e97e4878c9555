"""`tfquiver digest show` in a terminal, and in a pipe: names of files are long, and are never cut short."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.cells import cell_len

from tfquiver.cli import calls
from tfquiver.cli.dataset_commands import digest_shown
from tfquiver.digests.digest import Digest, FileEntry

FOLDER = "gs://a-bucket-with-a-long-name/as/people/have/them/imagenet-2012/train/"
LONG = [f"{FOLDER}imagenet-2012-train-{number:05}-of-00003.tfrecord" for number in range(3)]


def of(uris: list[str], size_bytes: int = 154 * 10**9) -> Digest:
    files = [FileEntry(uri, size_bytes, "1795974211671917223", "none") for uri in uris]
    count = len(uris)
    hashes = bytes(32 * count)
    lengths, numbers = [size_bytes // 2**16] * count, list(range(count))
    return Digest.build("train", files, memoryview(hashes), numbers, [0] * count, lengths, [1] * count)


def shown(digest: Digest, width: int | None, with_files: bool = False) -> list[str]:
    """`width`: of a terminal; None: in a pipe."""
    out = io.StringIO()
    console = calls.console(file=out) if width is None else calls.console(file=out, width=width)
    digest_shown.say(digest, Path("train.tfqd"), with_files, console)
    return out.getvalue().splitlines()


def test_in_a_pipe_each_file_is_a_line_with_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = shown(of(LONG), None)
    assert [line.split() for line in lines[-3:]] == [
        ["154,000,000,000", "1", "none", "1795974211671917223", uri] for uri in LONG
    ]


@pytest.mark.parametrize("width", [200, 120, 100, 80, 60, 50])
def test_in_a_terminal_it_is_no_wider_and_nothing_of_a_name_is_missing(width: int) -> None:
    lines = shown(of(LONG), width)
    assert [line for line in lines if cell_len(line) > width] == ([f"in {FOLDER}"] if width < len(FOLDER) + 3 else [])
    said = "".join("".join(lines).split())
    for uri in LONG:
        assert uri in said or uri.removeprefix(FOLDER) in said
    assert ("1795974211671917223" in said) == (width >= 120), "else the line below says where it is"
    assert of(LONG).digest_id.hex() in said
    assert (f"digest id     {of(LONG).digest_id.hex()}" in lines) == (width >= 80), "whole where it is to be copied"


def test_names_in_wide_characters_and_with_nothing_in_common() -> None:
    for uris in [["file:///" + "画" * 60], ["s3://b/one", "file:///" + "y" * 90]]:
        lines = shown(of(uris), 80)
        assert all(cell_len(line) <= 80 for line in lines)
        assert not [line for line in lines if line.startswith("in ")]


def test_of_many_files_it_is_said_how_they_are_listed() -> None:
    many = [f"s3://b/{number:03}" for number in range(11)]
    assert shown(of(many), 80)[-1] == "11 files; --files lists them"
    assert shown(of(many), 80, with_files=True)[-1].endswith("s3://b/010")


def test_a_shard_is_said_with_its_file() -> None:
    out = io.StringIO()
    digest_shown.say_shard(of(LONG), 2, calls.console(file=out, width=60))
    lines = out.getvalue().splitlines()
    assert lines[0] == "shard 2" and max(map(cell_len, lines)) <= 60
    assert LONG[2] in "".join(line[len("length bytes  ") :] for line in lines)
