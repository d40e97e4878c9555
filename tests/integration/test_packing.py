"""Packs of images, tars, Parquet and Arrow: what goes in comes out, or is refused."""

from __future__ import annotations

import io
import os
import pty
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.as_user import as_user
from tests.support.packs import PNG, images, packed, read
from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.packing import examples, pack, sources, targets
from tfquiver.packing.example import serialized
from tfquiver.reader.example import parse_example

_INT64 = st.integers(-(2**63), 2**63 - 1)
_VALUES = st.one_of(
    st.binary(max_size=300), st.lists(st.binary(max_size=9), max_size=4), st.lists(_INT64, max_size=4),
    st.lists(st.floats(width=32, allow_nan=False), max_size=4),
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=9), _VALUES, max_size=4))
def test_what_is_written_is_read(features: dict[str, Any]) -> None:
    found = parse_example(serialized(features))
    assert found.keys() == features.keys()
    for name, value in features.items():
        np.testing.assert_array_equal(
            np.asarray(found[name]), np.asarray([value] if isinstance(value, bytes) else value)
        )


@pytest.mark.parametrize("longest", ["a" * pack.MOST_NAME_BYTES, "é" * (pack.MOST_NAME_BYTES // 2)])
def test_a_name_that_no_disk_takes_is_refused_before_anything_is_written(
    tmp_path: Path, longest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["pack", str(images(tmp_path / "in")), "-o", str(tmp_path / "out"), "--name"]
    assert main([*command, longest + longest[0]]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"tfquiver: --name='{longest[:40]}'...: 200 bytes in UTF-8; the limit is 199: "), said
    assert not (tmp_path / "out").exists()
    assert main([*command, longest]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"{longest}-00000-of-00001.tfrecord", f"{longest}.pack.json",
    ]  # fmt: skip


def test_no_folder_at_all_is_not_the_working_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack", str(images(tmp_path / "in")), "-o", ""]) == 1
    assert capsys.readouterr().err.startswith("tfquiver: -o '': name a folder")


def test_a_pack_is_not_made_among_what_is_packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = images(tmp_path / "in")
    (tmp_path / "link").symlink_to(found)
    for out in ("in", "in/../in/", "link", "in/cat"):
        assert main(["pack", str(found), "-o", f"{tmp_path}/{out}"]) == 1
        assert (
            "which is packed: name another folder, the pack's files would lie among its own" in capsys.readouterr().err
        )
    assert len(list(found.rglob("*.*"))) == 9
    assert main(["pack", str(found), "-o", str(found / "packed")]) == 0
    (tmp_path / "beside").mkdir()
    with tarfile.open(tmp_path / "beside" / "a.tar", "w") as tar:
        tar.add(found / "ant" / "0.png", "0.png")
    assert main(["pack", str(tmp_path / "beside" / "a.tar"), "-o", str(tmp_path / "beside")]) == 0


def test_nothing_is_packed_twice_unseen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, other = images(tmp_path / "in"), images(tmp_path / "other")
    (tmp_path / "link").symlink_to(found)
    pack_them = ["pack", "-o", str(tmp_path / "out")]
    assert main([*pack_them, str(found), str(found)]) == 1
    assert capsys.readouterr().err == f"tfquiver: {found}: is named twice, and would be packed twice: name it once\n"
    for again in (found / "cat", tmp_path / "link"):
        assert main([*pack_them, str(found), str(again)]) == 1
        assert f"is in {found} and in {again}, and would be packed twice" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*pack_them, str(found), str(other)]) == 0


def test_what_cannot_be_made_is_named_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, file = images(tmp_path / "in"), tmp_path / "file"
    file.touch()
    assert main(["pack", str(found), "-o", str(file)]) == 1
    assert f"tfquiver: -o {file}: a file is there, and no directory: name another" in capsys.readouterr().err
    assert main(["pack", str(found), "-o", "/proc/x"]) == 1
    assert capsys.readouterr().err == "tfquiver: -o /proc/x: no directory can be made in /proc: name another\n"


def test_images_have_their_folders_as_classes_spread_over_files(tmp_path: Path) -> None:
    found = packed(images(tmp_path / "in"), tmp_path / "out", part_bytes=300, workers=2)
    assert len(list((tmp_path / "out").glob("*.tfrecord"))) == 3
    assert {(e["image/filename"][0], int(e["image/class/label"][0]), e["image/encoded"][0][-1]) for e in found} == {
        (f"{'cat' if n % 3 else 'ant'}/{n}.png".encode(), int(n % 3 > 0), n) for n in range(9)
    }


@pytest.mark.parametrize(
    ("content", "match"), [(b"", "is empty"), (b"no image", "begins as no JPEG"), (b"RIFF1234WAVE", "begins as no")]
)
def test_what_only_is_called_an_image_is_refused(tmp_path: Path, content: bytes, match: str) -> None:
    (images(tmp_path / "in") / "cat" / "2.png").write_bytes(content)
    with pytest.raises(errors.DataLossError, match=rf"cat/2\.png: {match}"):
        packed(tmp_path / "in", tmp_path / "out")


def test_it_is_refused_by_name_from_another_process_too(tmp_path: Path) -> None:
    (images(tmp_path / "in") / "cat" / "2.png").write_bytes(b"")
    with pytest.raises(errors.DataLossError, match=r"cat/2\.png: is empty"):
        packed(tmp_path / "in", tmp_path / "out", part_bytes=300, workers=2)


@pytest.mark.parametrize("content", [b"\xff\xd8\xff\xe0", b"GIF87a", b"GIF89a", b"BM\0", b"RIFF\n\0\0\0WEBP", PNG])
def test_an_image_may_be_of_another_format_than_its_name_says(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.JPEG").write_bytes(content)
    (found,) = packed(tmp_path / "in", tmp_path / "out")
    assert found["image/encoded"] == [content]


def test_what_is_left_out_is_counted_and_an_image_beside_the_classes_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = images(tmp_path / "in", 2)
    (root / "root.png").write_bytes(PNG)
    for name in ("README.txt", "a.csv", "b.csv", "c.csv"):
        (root / name).write_text("x")
    assert main(["pack", str(root), "-o", str(tmp_path / "out"), "--workers", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        "4 files of another kind left out: README.txt, a.csv, b.csv, ..."
    )
    classes = {
        example["image/filename"][0]: example.get("image/class/text")
        for path in (tmp_path / "out").glob("*.tfrecord")
        for example in read(path)
    }
    assert classes == {b"root.png": None, b"ant/0.png": [b"ant"], b"cat/1.png": [b"cat"]}


def test_the_bar_is_for_who_looks_and_what_was_made_for_whom_it_is_piped_to(tmp_path: Path) -> None:
    def ran(out: str, stderr: int) -> str:
        command = [sys.executable, "-m", "tfquiver.cli.main", "pack", str(images(tmp_path / "in")), "-o", out]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=True, env=environment)
        return f"{done.stdout}{done.stderr or ''}"

    quiet, looked = str(tmp_path / "quiet"), str(tmp_path / "looked")
    assert ran(quiet, subprocess.PIPE) == f"{quiet}: 1 file made, 0 were there\n"
    ours, its = pty.openpty()
    try:
        assert ran(looked, its) == f"{looked}: 1 file made, 0 were there\n"
        assert b"packing" in os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(its)


def test_files_of_a_tar_that_share_a_stem_are_one_record(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, content in (("x/1.jpg", b"one"), ("x/1.cls", b"7"), ("x/2.seg.png", b"two")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    assert packed(tmp_path / "a.tar", tmp_path / "out") == [
        {"__key__": [b"x/1"], "jpg": [b"one"], "cls": [b"7"]}, {"__key__": [b"x/2"], "seg.png": [b"two"]}
    ]  # fmt: skip


def test_columns_become_features(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"text": "a", "n": 1, "x": [0.5, 2.0], "image": {"bytes": b"\0", "path": None}}, {"text": "b", "n": 2}]
    table = arrow.Table.from_pylist(rows, schema=arrow.schema([
        ("text", arrow.string()), ("n", arrow.int64()), ("x", arrow.list_(arrow.float32())),
        ("image", arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])),
    ]))  # fmt: skip
    parquet.write_table(table, tmp_path / "a.parquet")
    saved = tmp_path / "saved"  # as datasets.save_to_disk leaves it
    saved.mkdir()
    with (
        arrow.OSFile(str(saved / "data-00000-of-00001.arrow"), "wb") as out,
        arrow.ipc.new_stream(out, table.schema) as to,
    ):
        to.write_table(table)
    for number, source in enumerate((tmp_path / "a.parquet", saved)):
        first, second = packed(source, tmp_path / f"out-{number}")
        assert first["text"] == [b"a"] and first["n"].tolist() == [1] and first["x"].tolist() == [0.5, 2.0]
        assert first["image/bytes"] == [b"\0"] and "image/path" not in first
        assert sorted(second) == ["n", "text"]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (
            lambda arrow: arrow.Table.from_arrays([arrow.array([1]), arrow.array([2])], names=["a", "a"]),
            "2 columns 'a'",
        ),
        (lambda arrow: arrow.table({"a": [{"b": 1}], "a/b": [2]}), "column 'a/b' and a struct"),
        (
            lambda arrow: arrow.table({"a": arrow.StructArray.from_arrays([[1], [2]], names=["b", "b"])}),
            "a struct has two fields of one name",
        ),
        (lambda arrow: arrow.table({"a": arrow.array([2**63], arrow.uint64())}), f"column 'a' has {2**63}"),
        (
            lambda arrow: arrow.table({"a": arrow.array([[2**64 - 1]], arrow.list_(arrow.uint64()))}),
            "column 'a' has 18",
        ),
    ],
)
def test_no_column_takes_anothers_place_and_no_number_is_another(
    tmp_path: Path, columns: Callable[[Any], Any], match: str
) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.parquet").write_table(columns(arrow), tmp_path / "a.parquet")
    with pytest.raises(errors.InvalidArgumentError, match=rf"a\.parquet: .*{match}"):
        packed(tmp_path / "a.parquet", tmp_path / "out")


def tar_of(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 700
            tar.addfile(info, io.BytesIO(b"x" * info.size))
    return path


@pytest.mark.parametrize("number", [1, 5, 9])
def test_a_damaged_header_in_a_tar_is_not_its_end(tmp_path: Path, number: int) -> None:
    path = tar_of(tmp_path / "a.tar", *(f"{sample:03}.txt" for sample in range(10)))
    assert len(packed(path, tmp_path / "whole")) == 10
    data = bytearray(path.read_bytes())
    at = number * 3 * 512
    data[at + 3] ^= 255
    for damaged in (data, data[: at + 100]):
        path.write_bytes(damaged)
        with pytest.raises(errors.DataLossError, match=f"a.tar: damaged at byte {at}"):
            packed(path, tmp_path / f"out-{len(damaged)}")


@pytest.mark.parametrize("names", [("a.txt", "a.txt"), ("a", "a.data"), ("a.__key__",), ("a.x\udcff",)])
def test_no_file_of_a_tar_takes_anothers_place(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"a\.tar: 'a"):
        packed(tar_of(tmp_path / "a.tar", *names), tmp_path / "out")


def tar_with_links(path: Path, *links: tuple[str, str, bytes]) -> Path:
    tar_of(path, "./1.txt", "2.cls")
    with tarfile.open(path, "a") as tar:
        for name, target, kind in links:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, target
            tar.addfile(link)
    return path


def test_a_hard_link_in_a_tar_has_the_content_of_what_it_is_to(tmp_path: Path) -> None:
    """As in tars of folders in which two names are one file (`cp -l`, a deduplicated store)."""
    hard = tarfile.LNKTYPE
    path = tar_with_links(tmp_path / "a.tar", ("2.txt", "1.txt", hard), ("3.txt", "./2.txt", hard))
    _, second, third = packed(path, tmp_path / "out")
    assert second == {"__key__": [b"2"], "cls": [b"x" * 700], "txt": [b"x" * 700]}
    assert third == {"__key__": [b"3"], "txt": [b"x" * 700]}


@pytest.mark.parametrize(
    ("link", "error", "match"),
    [
        (("2.txt", "1.txt", tarfile.SYMTYPE), errors.InvalidArgumentError, "'2.txt' is a link to '1.txt'"),
        (("2.txt", "9.txt", tarfile.LNKTYPE), errors.DataLossError, "'2.txt' is a hard link to '9.txt'"),
    ],
)
def test_a_link_in_a_tar_is_not_left_out(
    tmp_path: Path, link: tuple[str, str, bytes], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=rf"a\.tar: {match}"):
        packed(tar_with_links(tmp_path / "a.tar", link), tmp_path / "out")


def test_links_to_folders_and_files_are_followed_and_never_left_out(tmp_path: Path) -> None:
    images(tmp_path / "elsewhere")
    whole = packed(tmp_path / "elsewhere", tmp_path / "whole")
    linked = tmp_path / "linked"
    linked.mkdir()
    for name in ("ant", "cat"):
        (linked / name).symlink_to(tmp_path / "elsewhere" / name)
    assert packed(linked, tmp_path / "out") == whole
    (linked / "cat.png").symlink_to(tmp_path / "nowhere.png")
    with pytest.raises(errors.NotFoundError, match=r"cat\.png: a link to what is not there, .*nowhere"):
        sources.parts([linked], 1)


def test_what_has_two_names_is_packed_once_and_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Links to folders and files beside them, in circles, out of the folder and back in, and one through another."""
    root = images(tmp_path / "in")
    before = packed(root, tmp_path / "before")
    images(tmp_path / "elsewhere", 2)
    (root / "a_first").symlink_to(root / "cat")
    (root / "current").symlink_to("a_first")
    (root / "cat" / "up").symlink_to("..")
    (root / "cat" / "latest.png").symlink_to("1.png")
    (root / "itself").symlink_to("itself")
    (root / "other").symlink_to(tmp_path / "elsewhere" / "ant")
    (root / "others").symlink_to(tmp_path / "elsewhere" / "ant")
    (tmp_path / "elsewhere" / "ant" / "back").symlink_to(root)
    assert main(["pack", str(root), "-o", str(tmp_path / "out"), "--workers", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "7 links left out, to what is packed under another name: itself, a_first, up, ..."
    ]
    found = [example for path in sorted((tmp_path / "out").glob("*.tfrecord")) for example in read(path)]
    names = sorted(example["image/filename"][0].decode() for example in found)
    assert names == sorted([*(example["image/filename"][0].decode() for example in before), "other/0.png"])


def test_an_image_linked_into_another_class_is_of_both_and_a_tar_is_packed_once(tmp_path: Path) -> None:
    root = images(tmp_path / "in", 2)
    (root / "cat" / "0.png").symlink_to("../ant/0.png")
    assert sorted(example["image/filename"][0] for example in packed(root, tmp_path / "out")) == [
        b"ant/0.png", b"cat/0.png", b"cat/1.png"
    ]  # fmt: skip
    tars = tmp_path / "tars"
    (tars / "old").mkdir(parents=True)
    tar_of(tars / "old" / "1.tar", "1.txt")
    (tars / "a_latest.tar").symlink_to("old/1.tar")
    over: list[Path] = []
    (part,) = sources.parts([tars], 1, passed_over=over.append)
    assert part.files == (tars / "old" / "1.tar",) and over == [tars / "a_latest.tar"]


def test_names_that_are_no_text_are_kept(tmp_path: Path) -> None:
    (found,) = packed(tar_of(tmp_path / "a.tar", "\udcff.jpg"), tmp_path / "tar")
    assert found["__key__"] == [b"\xff"]
    folder = tmp_path / "in" / "\udcfe"
    folder.mkdir(parents=True)
    (folder / "\udcff.png").write_bytes(PNG)
    (found,) = packed(tmp_path / "in", tmp_path / "images")
    assert found["image/filename"] == [b"\xfe/\xff.png"] and found["image/class/text"] == [b"\xfe"]


def test_numbers_too_large_for_a_float_are_infinite() -> None:
    found = parse_example(serialized({"x": [1e300, -1e300, 0.5]}))
    assert np.asarray(found["x"]).tolist() == [np.inf, -np.inf, 0.5]


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("needs root, to be another user")
    root = images(Path(tempfile.mkdtemp(dir="/tmp")) / "in")
    try:
        root.parent.chmod(0o755)
        (root / "ant").chmod(0o700)
        with pytest.raises(RuntimeError, match=r"PermissionError_: .*/ant"):
            as_user(65534, 65534, [], lambda: len(sources.parts([root], 1 << 20)))
        gone = sources.parts([root], 1 << 20)
        (root / "ant" / "0.png").unlink()
        with pytest.raises(errors.NotFoundError, match=r"ant/0\.png"):
            pack.pack(gone, targets.target(str(tmp_path / "out")), "data", 1)
        with pytest.raises(errors.NotFoundError, match=r"ant/0\.png"):
            list(examples.of_part(gone[0]))
    finally:
        shutil.rmtree(root.parent)


@pytest.mark.parametrize(
    ("name", "content", "error", "match"),
    [
        ("a.txt", b"x", errors.InvalidArgumentError, "must be a folder"),
        ("missing.tar", None, errors.NotFoundError, "no such file"),
        ("a.tar", struct.pack("600s", b"no tar"), errors.DataLossError, "a.tar"),
        ("a.parquet", b"PAR1 no", errors.DataLossError, "a.parquet"),
    ],
)
def test_what_cannot_be_packed_is_named(
    tmp_path: Path, name: str, content: bytes | None, error: type[Exception], match: str
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=match):
        packed(tmp_path / name, tmp_path / "out")
    assert not list(tmp_path.glob("out/*.tfrecord"))
