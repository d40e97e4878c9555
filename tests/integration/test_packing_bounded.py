"""Tables of which a few bytes stand for many: packed in bounded memory; what is too large is named."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.packs import PNG, packed
from tfquiver import errors
from tfquiver.packing import examples, parquet_pages, tables
from tfquiver.packing.expanded import expanded_bytes
from tfquiver.packing.sources import Part

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
LARGE, ROWS = bytes(1 << 20), 64


def repeated(count: int = ROWS, value: bytes = LARGE) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([value], pa.binary()))


def lists_of_one(count: int = ROWS) -> Any:
    return pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), repeated(count))


def parquet(path: Path, column: Any, **options: Any) -> Path:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"x": column}), path, compression="zstd", store_schema=False, **options)
    return path


def arrow(path: Path, column: Any) -> Path:
    table = pa.table({"x": column})
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, table.schema) as to:
        to.write_table(table)
    return path


def uneven(path: Path) -> Path:
    """Of small rows, in whose midst are large ones: the mean says nothing of these."""
    small = [b"s"] * 1_000
    return parquet(path, pa.array([*small, *[LARGE] * ROWS, *small]), use_dictionary=False, write_batch_size=1)


def of_file(path: Path) -> Iterator[bytes]:
    return examples.of_part(Part(path.suffix[1:], (path,)))


@pytest.mark.parametrize(
    "made",
    [
        lambda folder: parquet(folder / "x.parquet", repeated()),
        lambda folder: uneven(folder / "x.parquet"),
        lambda folder: parquet(folder / "x.parquet", lists_of_one()),
        lambda folder: arrow(folder / "x.arrow", repeated()),
        lambda folder: arrow(folder / "x.arrow", lists_of_one()),
        lambda folder: arrow(folder / "x.arrow", pa.RunEndEncodedArray.from_arrays([ROWS], pa.array([LARGE]))),
        lambda folder: arrow(folder / "x.arrow", repeated().cast(pa.binary()).cast(pa.binary_view())),
    ],
    ids=["equal rows", "large among small", "lists", "arrow", "arrow lists", "runs", "views"],
)
def test_what_few_bytes_stand_for_is_unpacked_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    path = made(tmp_path)
    monkeypatch.setattr(tables, "_BATCH_BYTES", 4 << 20)
    counted, before = pa.proxy_memory_pool(pa.system_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        assert sum(len(record) > len(LARGE) for record in of_file(path)) == ROWS
        at_most = counted.max_memory() + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert at_most < 24 << 20, "and there are 64 MiB"


def test_what_is_read_in_small_batches_is_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [None if n % 7 == 0 else [f"{n}-{i % 3}" * (n % 11) for i in range(n % 4)] for n in range(900)]
    texts = [None if n % 3 == 0 else f"text {n % 10}" * (n % 13) for n in range(900)]
    table = pa.table({"lists": lists, "texts": texts, "numbers": list(range(900))})
    import pyarrow.parquet

    whole = [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]
    seen: list[dict[str, Any]] = []

    def kept(features: dict[str, Any]) -> bytes:
        seen.append(features)
        return b""

    monkeypatch.setattr(tables, "serialized", kept)
    for dictionary in (True, False, ["texts"]):
        for batch_bytes in (100, 3_000, 1 << 20):
            monkeypatch.setattr(tables, "_BATCH_BYTES", batch_bytes)
            for version in ("1.0", "2.0"):
                path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
                pyarrow.parquet.write_table(
                    table, path, row_group_size=250, data_page_size=500, use_dictionary=dictionary,
                    data_page_version=version,
                )  # fmt: skip
                seen.clear()
                assert len(list(of_file(path))) == 900
                assert [row["numbers"] for row in seen] == [[n] for n in range(900)]
                texts_seen = [row["texts"].decode() if "texts" in row else None for row in seen]
                assert texts_seen == [row.get("texts") for row in whole]
                assert [row.get("lists") for row in seen] == [
                    [text.encode() for text in row["lists"]] if "lists" in row else None for row in whole
                ]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_row_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(tables, "MOST_RECORD_BYTES", 1000)
    monkeypatch.setattr(tables, "_BATCH_BYTES", 500)
    column = pa.array([b"x"] * 300 + [b"y" * 1001])
    path = {"parquet": parquet, "arrow": arrow}[kind](tmp_path / f"x.{kind}", column)
    with pytest.raises(errors.InvalidArgumentError, match=rf"x\.{kind}: row 300 \(from 0\) has 1001 bytes; 1 GiB"):
        packed(path, tmp_path / "out")
    column = pa.array([b"y" * 995])  # with its name it is too large
    with pytest.raises(errors.InvalidArgumentError, match=rf"x\.{kind}: row 0 \(from 0\) has 10\d\d bytes"):
        packed({"parquet": parquet, "arrow": arrow}[kind](path, column), tmp_path / "other")


def test_an_image_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "MOST_RECORD_BYTES", 1000)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.png").write_bytes(PNG + bytes(993))
    with pytest.raises(errors.InvalidArgumentError, match=r"1\.png: has 1001 bytes; 1 GiB is the most"):
        packed(tmp_path / "in", tmp_path / "out")


def test_an_image_takes_the_memory_of_its_size(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(PNG)
    tracemalloc.start()
    try:
        assert examples._image(tmp_path / "1.png") == PNG
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "made",
    [
        lambda texts: pa.array([[text] * (9 - len(text) // 100) for text in texts], pa.list_view(pa.string())),
        lambda texts: pa.DictionaryArray.from_arrays(
            pa.array(range(len(texts)), pa.int32()), pa.array([[text] for text in texts])
        ),
        lambda texts: pa.DictionaryArray.from_arrays(
            pa.array(range(len(texts)), pa.int32()), pa.array(texts, pa.string_view())
        ),
        lambda texts: pa.RunEndEncodedArray.from_arrays(
            pa.array(range(1, len(texts) + 1), pa.int32()), pa.array(texts)
        ),
    ],
    ids=["list views", "dictionary of lists", "dictionary of views", "runs"],
)
def test_what_a_batch_has_beside_a_row_is_not_counted_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    monkeypatch.setattr(tables, "MOST_RECORD_BYTES", 2_500)
    monkeypatch.setattr(tables, "_BATCH_BYTES", 100)
    texts = ["short"] * 9 + ["x" * 700] * 5
    batch = pa.RecordBatch.from_arrays([made(texts)], ["x"])
    assert [len(record) > 700 for record in tables._rows(tmp_path / "x.arrow", batch, 0)] == [
        len(text) > 5 for text in texts
    ]


def test_a_row_of_a_list_view_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_RECORD_BYTES", 1_000)
    monkeypatch.setattr(tables, "_BATCH_BYTES", 100)
    column = pa.ListViewArray.from_arrays([0, 1], [1, 19], repeated(20, b"x" * 60))
    rows = tables._rows(tmp_path / "x.arrow", pa.RecordBatch.from_arrays([column], ["x"]), 0)
    with pytest.raises(errors.InvalidArgumentError, match=r"x\.arrow: row 1 \(from 0\) has 1140 bytes"):
        list(rows)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_string(), pa.string_view(), pa.list_(pa.binary())], ids=str)
def test_what_stands_between_lists_of_a_view_is_not_theirs(kind: Any) -> None:
    """The values of a batch's lists in any order: the whole batch was counted for any two of its rows, so that all of
    it was gone through for each."""
    of_ten = [["x" * 10], ["y" * 10]] if pa.types.is_list(kind) else ["x" * 10, "y" * 10]
    values = pa.array(of_ten * 50, kind)
    column = pa.ListViewArray.from_arrays([99, 3, 50, 0, 20, 4], [1, 1, 2, 0, 3, 1], values)
    assert expanded_bytes(column) == 80
    assert [expanded_bytes(column.slice(at, 2)) for at in range(5)] == [20, 30, 20, 30, 40]
    assert expanded_bytes(pa.ListViewArray.from_arrays([0, 3], [2, 1], values.slice(90))) == 30


@pytest.mark.parametrize(
    "kind",
    [pa.string_view(), pa.binary_view(), pa.list_view(pa.string()), pa.large_list_view(pa.string_view())],
    ids=str,
)
def test_arrays_of_nothing_are_counted(kind: Any) -> None:
    assert expanded_bytes(pa.array([], kind)) == 0
    assert expanded_bytes(pa.array([[], None], pa.list_(kind))) == 0
    assert expanded_bytes(pa.array([None], kind)) == 0


def test_a_dictionary_of_nothing_is_counted() -> None:
    of_nothing = pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array([], pa.string_view()))
    assert expanded_bytes(of_nothing) == 0


def test_a_union_is_named(tmp_path: Path) -> None:
    column = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["x"])])
    with pytest.raises(errors.InvalidArgumentError, match=r"x\.arrow: column 'x' has a union;"):
        list(of_file(arrow(tmp_path / "x.arrow", column)))


def test_texts_of_dictionaries_are_read_in_batches_of_many_rows(tmp_path: Path) -> None:
    import pyarrow.parquet

    texts = [f"{n % 2_000:0128}" for n in range(8_000)]
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pa.table({f"c{n}": texts for n in range(30)}), path)
    metadata = pyarrow.parquet.ParquetFile(path).metadata
    with path.open("rb") as file:
        rows, as_they_are = parquet_pages.to_be_read(path, file, metadata, 0, 256, 16 << 20)
    assert rows == 256
    assert len(as_they_are) == 30


def test_pages_of_a_column_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = uneven(tmp_path / "x.parquet")
    monkeypatch.setattr(parquet_pages, "_MOST_PAGES", 10)
    with pytest.raises(
        errors.InvalidArgumentError, match=r"x\.parquet: column 'x': row group 0: has more than 10 pages: write"
    ):
        list(of_file(path))


def test_pages_that_do_not_fit_are_refused_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_pages, "MOST_UNPACKED_BYTES", 1 << 20)
    path = parquet(tmp_path / "x.parquet", repeated())
    with pytest.raises(
        errors.InvalidArgumentError, match=r"x\.parquet: column 'x': row group 0: its pages unpack to 10"
    ):
        list(of_file(path))


@pytest.mark.parametrize("damage", [b"", b"\xff" * 8, b"\x19\xf8" + b"\xff" * 9, b"\x1c" * 30])
def test_a_damaged_pages_header_is_named(tmp_path: Path, damage: bytes) -> None:
    import pyarrow.parquet

    path = parquet(tmp_path / "x.parquet", pa.array([b"one", b"two"]))
    at = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(0).dictionary_page_offset
    data = bytearray(path.read_bytes())
    data[at : at + len(damage)] = damage
    if not damage:
        data[at : at + 2] = bytes(2)  # no fields
    path.write_bytes(data)
    with pytest.raises(errors.DataLossError, match=r"x\.parquet: column 'x': row group 0: damaged at byte 4"):
        list(of_file(path))


@pytest.mark.parametrize("offsets", [(0, 1 << 30), (4, 0), (-(1 << 20), 2)])
def test_offsets_that_lead_out_of_an_arrow_file_are_refused(tmp_path: Path, offsets: tuple[int, int]) -> None:
    buffers = [None, pa.py_buffer(struct.pack("<ii", *offsets)), pa.py_buffer(b"text")]
    path = arrow(tmp_path / "x.arrow", pa.array([b"text"]))
    data = path.read_bytes()
    where = data.rindex(struct.pack("<ii", 0, 4))
    path.write_bytes(data[:where] + bytes(buffers[1]) + data[where + 8 :])
    with pytest.raises(errors.DataLossError, match=r"x\.arrow: column 'x' is damaged"):
        list(of_file(path))
