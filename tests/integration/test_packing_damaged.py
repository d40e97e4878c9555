"""Tars, Parquet and Arrow files that are damaged, cut off, or made up by somebody: named, never packed in part."""

from __future__ import annotations

import datetime
import io
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.packs import packed
from tfquiver import errors
from tfquiver.packing import tars

FILE_BYTES, END = 1024, bytes(1024)


def member(name: str, content: bytes, kind: bytes = tarfile.REGTYPE, size: int | None = None) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content) if size is None else size
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


TWO = member("1.txt", b"x" * 500) + member("2.txt", b"y" * 500)
ONE = member("1.txt", b"x")


def extended(content: bytes) -> bytes:
    return member("of the next", content, tarfile.XHDTYPE)


def sized(content: bytes) -> bytes:
    """With the length that these begin with."""
    return next(text for n in range(99) if len(text := b"%d %s\n" % (n, content)) == n)


def sparse_map_cut_off() -> bytes:
    """It says that it goes on, and there the file ends."""
    header = bytearray(member("1.txt", b"", tarfile.GNUTYPE_SPARSE))
    header[482], header[148:156] = 1, b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (TWO[:FILE_BYTES], "cut off at byte 1024: .*truncate -s"),
        (TWO, "cut off at byte 2048"),
        (TWO[:FILE_BYTES] + bytes(512) + TWO[FILE_BYTES:] + END, "something at byte 1536, behind its end at byte 1024"),
        ((TWO + END) * 2, "at byte 3072, behind its end at byte 2048: .*several tars"),
        (member("1.txt", b"", size=-1) + END, "header of '1.txt' has a size"),
        (extended(b"99999999999999 path=abc\n") + ONE + END, r"header of 'abc\\n"),
        (extended(sized(b"GNU.sparse.size=abc")) + ONE + END, "invalid literal"),
        (extended(b"11 a=bcdef\n") * 1500 + ONE + END, "recursion"),
        (member("x", b"name\0", tarfile.GNUTYPE_LONGNAME) * 1500 + ONE + END, "recursion"),
        (member("x", b"a" * 600, tarfile.GNUTYPE_LONGNAME, 1 << 60) + ONE + END, "MemoryError"),
        (member("x", b"", b"Z", 1 << 80) + ONE + END, r"a\.tar: ."),
        (sparse_map_cut_off(), "index out of range"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_tar_is_packed_whole_or_refused(tmp_path: Path, content: bytes, match: str) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(content)
    with pytest.raises(errors.DataLossError, match=match):
        packed(path, tmp_path / "out")
    assert not list(tmp_path.glob("out/*.tfrecord"))
    path.write_bytes(TWO + END)
    assert len(packed(path, tmp_path / "out")) == 2


def test_all_files_of_a_sample_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tars, "MOST_RECORD_BYTES", 1000)
    path = tmp_path / "a.tar"
    path.write_bytes(TWO + END)
    assert len(packed(path, tmp_path / "out")) == 2
    path.write_bytes(member("1.txt", b"x" * 500) + member("1.cls", b"x" * 501) + END)
    with pytest.raises(errors.InvalidArgumentError, match=r"a\.tar: '1\.cls': its sample has 1001 bytes"):
        packed(path, tmp_path / "other")


def _map() -> object:
    import pyarrow as pa

    return pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32()))


def _list_of_maps() -> object:
    import pyarrow as pa

    return pa.array([[[("k", 1)]]], pa.list_(pa.map_(pa.string(), pa.int32())))


def _no_text() -> object:
    import pyarrow as pa

    buffers = [None, pa.py_buffer(struct.pack("<ii", 0, 2)), pa.py_buffer(b"\xff\xfe")]
    return pa.Array.from_buffers(pa.string(), 1, buffers)


def _far_day() -> object:
    import pyarrow as pa

    return pa.array([2**30], pa.date32())


def _far_moment() -> object:
    import pyarrow as pa

    return pa.array([2**62], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("column", "error", "match"),
    [
        (_no_text, errors.DataLossError, "column 'b' has text that is not UTF-8"),
        (_far_day, errors.InvalidArgumentError, "column 'b' has a value that cannot be read"),
        (_far_moment, errors.InvalidArgumentError, "column 'b' has a value that cannot be read"),
        (_map, errors.InvalidArgumentError, "column 'b' has a map;"),
        (_list_of_maps, errors.InvalidArgumentError, "column 'b' has a map;"),
        (lambda: [datetime.date(2026, 1, 1)], errors.InvalidArgumentError, "column 'b' has a date;"),
    ],
)
def test_a_column_that_cannot_be_read_is_named(
    tmp_path: Path, column: Callable[[], object], error: type[Exception], match: str
) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pa.table({"a": [1], "b": column(), "c": [2]})
    written = io.BytesIO()
    with pa.ipc.new_stream(written, table.schema) as stream:
        stream.write_table(table)
    (tmp_path / "x.arrow").write_bytes(written.getvalue())
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "x.parquet")
    for path in (tmp_path / "x.arrow", tmp_path / "x.parquet"):
        with pytest.raises(error, match=rf"{path.name}: {match}"):
            packed(path, tmp_path / f"out-{path.suffix}")
