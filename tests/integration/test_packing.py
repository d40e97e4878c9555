"""Packs of images, tars, Parquet and Arrow: what goes in comes out, whoever is killed in between."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import struct
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.packing import pack, sources, targets
from tfquiver.packing.example import serialized
from tfquiver.reader.example import parse_example
from tfquiver.scanning import tfrecord

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


def read(path: Path) -> list[dict[str, Any]]:
    data, at, found = path.read_bytes(), 0, []
    assert sum(len(block.ends) for block in tfrecord.scan([data], name=path.name)), "its checksums are right"
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(parse_example(data[at + 12 : at + 12 + length]))
        at += 16 + length
    return found


def packed(source: Path, out: Path, part_bytes: int = 1 << 20, workers: int = 1) -> list[dict[str, Any]]:
    parts = sources.parts([source], part_bytes)
    pack.pack(parts, targets.target(str(out)), "data", workers)
    return [example for path in sorted(out.glob("*.tfrecord")) for example in read(path)]


def images(root: Path, count: int = 9) -> Path:
    for number in range(count):
        folder = root / ("cat" if number % 3 else "ant")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(bytes([number]) * 100)
    return root


def test_images_have_their_folders_as_classes_spread_over_files(tmp_path: Path) -> None:
    found = packed(images(tmp_path / "in"), tmp_path / "out", part_bytes=300)
    assert len(list((tmp_path / "out").glob("*.tfrecord"))) == 3
    assert {(e["image/filename"][0], int(e["image/class/label"][0]), e["image/encoded"][0][0]) for e in found} == {
        (f"{'cat' if n % 3 else 'ant'}/{n}.png".encode(), int(n % 3 > 0), n) for n in range(9)
    }


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


def _pack_slowly(source: Path, out: Path) -> None:
    pack.pack(sources.parts([source], 1), targets.target(str(out)), "data", 1, lambda done, of: time.sleep(0.02))


def test_a_killed_pack_goes_on_to_the_same_files(tmp_path: Path) -> None:
    source, out = images(tmp_path / "in", 12), tmp_path / "out"
    whole = packed(source, tmp_path / "whole", part_bytes=1)
    child = multiprocessing.get_context("fork").Process(target=_pack_slowly, args=(source, out))
    child.start()
    deadline = time.monotonic() + 60
    while len(list(out.glob("*.tfrecord"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert child.pid
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord")}
    assert packed(source, out, part_bytes=1) == whole
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord") if path.name in before} == before
    assert pack.pack(sources.parts([source], 1), targets.target(str(out)), "data", 1) == 0


def test_another_source_is_not_mixed_in(tmp_path: Path) -> None:
    packed(images(tmp_path / "in"), tmp_path / "out")
    (tmp_path / "in" / "cat" / "1.png").write_bytes(b"other")
    with pytest.raises(errors.InvalidArgumentError, match="another --name"):
        packed(tmp_path / "in", tmp_path / "out")


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
