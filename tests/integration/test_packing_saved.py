"""Packs of what Hugging Face's `datasets` has saved: all its pieces, and nothing else; Arrow streams whole or refused.

And of a place where others' files are: they are no pack's own."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.packs import images, packed
from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.packing import sources


def stream(first: int, rows: int = 10, **options: Any) -> bytes:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table, written = pa.table({"a": range(first, first + rows)}), io.BytesIO()
    with pa.ipc.new_stream(written, table.schema, **options) as batches:
        batches.write_table(table, max_chunksize=5)
    return written.getvalue()


def saved(folder: Path, count: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data-{number:05}-of-{count:05}.arrow" for number in range(count)]
    for number, name in enumerate(names):
        (folder / name).write_bytes(stream(10 * number))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [int(example["a"][0]) for example in found]


def test_a_saved_data_set_is_packed_with_all_its_pieces_or_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "in", 3)
    lost = folder / "data-00001-of-00003.arrow"
    lost.rename(tmp_path / "lost")
    with pytest.raises(errors.DataLossError, match=r"data-00001-of-00003\.arrow: is not there.*of 3 files 1"):
        packed(folder, tmp_path / "out")
    (tmp_path / "lost").rename(lost)
    assert numbers(packed(folder, tmp_path / "out")) == list(range(30))


def test_what_a_larger_save_before_has_left_is_no_data(tmp_path: Path) -> None:
    saved(tmp_path / "in", 3)
    folder, left_out = saved(tmp_path / "in", 2), list[Path]()
    sources.parts([folder], 1, left_out.append)
    assert {path.name for path in left_out if path.suffix == ".arrow"} == {
        f"data-{number:05}-of-00003.arrow" for number in range(3)
    }
    assert numbers(packed(folder, tmp_path / "out")) == list(range(20))


def test_a_split_that_is_missing_is_named(tmp_path: Path) -> None:
    saved(tmp_path / "in" / "train", 1)
    (tmp_path / "in" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(errors.DataLossError, match=r"in/test: has no state\.json"):
        packed(tmp_path / "in", tmp_path / "out")
    saved(tmp_path / "in" / "test", 1)
    assert len(packed(tmp_path / "in", tmp_path / "out")) == 20


@pytest.mark.parametrize(
    ("name", "content", "error", "match"),
    [
        ("state.json", b'{"_data_files": [{"fil', errors.DataLossError, "is damaged"),
        ("state.json", b'{"_data_files": [7]}', errors.DataLossError, "is damaged"),
        ("dataset_dict.json", b'["train"]', errors.DataLossError, "is damaged"),
        (
            "state.json", b'{"_data_files": [], "_indices_data_files": [{"filename": "indices.arrow"}]}',
            errors.InvalidArgumentError, "table of indices",
        ),
    ],
)  # fmt: skip
def test_what_names_the_pieces_is_damaged(
    tmp_path: Path, name: str, content: bytes, error: type[Exception], match: str
) -> None:
    (saved(tmp_path / "in", 1) / name).write_bytes(content)
    with pytest.raises(error, match=rf"{name}: .*{match}"):
        packed(tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize("content", [b'{"epoch": 3}', b"no JSON", b"[]"])
def test_somebody_elses_state_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.arrow").write_bytes(stream(0))
    (tmp_path / "in" / "state.json").write_bytes(content)
    assert len(packed(tmp_path / "in", tmp_path / "out")) == 10


def test_an_arrow_stream_is_packed_whole_or_refused(tmp_path: Path) -> None:
    """Between two of its messages it is cut off so that pyarrow sees nothing of it."""
    path, whole = tmp_path / "x.arrow", stream(0)
    path.write_bytes(whole[: len(stream(0, 5)) - 8])
    with pytest.raises(errors.DataLossError, match=r"x\.arrow: cut off at byte"):
        packed(path, tmp_path / "out")
    path.write_bytes(whole * 2)
    with pytest.raises(errors.DataLossError, match=rf"x\.arrow: has something at byte {len(whole)}, behind its end"):
        packed(path, tmp_path / "out")
    assert not list(tmp_path.glob("out/*.tfrecord"))
    path.write_bytes(whole)
    assert numbers(packed(path, tmp_path / "out")) == list(range(10))


def test_a_stream_of_an_old_arrow_is_packed(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    old = stream(0, options=pa.ipc.IpcWriteOptions(use_legacy_format=True))
    (tmp_path / "x.arrow").write_bytes(old)
    assert len(packed(tmp_path / "x.arrow", tmp_path / "out")) == 10


@pytest.mark.parametrize("name", ["data-00000-of-00001.tfrecord", "data-00007-of-00009.tfrecord"])
def test_files_of_others_are_not_taken_for_made(tmp_path: Path, name: str) -> None:
    source, theirs = images(tmp_path / "in"), tmp_path / "out" / name
    theirs.parent.mkdir()
    theirs.write_bytes(b"of somebody else")
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError, match=rf"{name}: is there already, and no data\.pack\.json"):
            packed(source, tmp_path / "out")
    assert [path.name for path in theirs.parent.iterdir()] == [name]
    theirs.unlink()
    assert len(packed(source, tmp_path / "out")) == 9


def test_a_name_with_a_slash_is_no_beginning_of_a_files_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(images(tmp_path / "in"))
    assert main(["pack", source, "-o", str(tmp_path / "out"), "--name", "../x"]) != 0
    assert "--name=../x: is how files' names begin" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
