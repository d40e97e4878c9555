"""Weights of records: what is no weight is refused, and so is a file of which any byte is not as it was written."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfquiver import Weighted, errors
from tfquiver.messages_and_binary_formats import record_weights as module
from tfquiver.messages_and_binary_formats.record_picks import MOST_PICK_BYTES, RecordPicks, record_picks
from tfquiver.messages_and_binary_formats.record_weights import checked_values, decoded, opened, record_weights

ROOT = b"r" * 32
GOOD = record_weights(ROOT, checked_values("w", [1.0, 2.0, 0.0])).to_bytes()


def read(data: bytes) -> None:
    decoded(np.frombuffer(data, np.uint8), "the file")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([1.0, -1.0], r"w\[1\]=-1.0: must be finite as float32, and 0 or more"),
        ([1.0, float("nan")], r"w\[1\]=nan"),
        ([float("inf")], r"w\[0\]=inf"),
        ([1e39, 1.0], r"w\[0\]=1e\+39"),
        ([0.0, 0.0], "w: at least one must be above 0"),
        ([1e-60], "w: at least one must be above 0, as float32"),
        ([], "w: 0 weights"),
        ([[1.0]], r"w: float64 of shape \[1, 1\]"),
        (["a"], r"w: <U1 of shape \[1\]"),
        ([True], r"w: bool of shape \[1\]"),
        ([1j], r"w: complex128"),
    ],
)
def test_what_is_no_weight(given: Any, what: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=what):
        checked_values("w", given)


def test_what_is_given_may_be_changed_afterwards() -> None:
    given = np.ones(3, np.float32)
    kept = checked_values("w", given)
    given[0] = 7
    assert kept.tolist() == [1, 1, 1]
    assert checked_values("w", np.arange(1, 7)[::2]).tolist() == [1, 3, 5]


def test_a_file_reads_as_it_was_written_and_any_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.tfqw"
    path.write_bytes(GOOD)
    assert opened(path).values.tolist() == [1, 2, 0]
    for at in range(len(GOOD)):
        with pytest.raises(errors.DataLossError, match=r"^the file: "):
            read(GOOD[:at] + bytes([GOOD[at] ^ 4]) + GOOD[at + 1 :])
        with pytest.raises(errors.DataLossError, match=r"^the file: "):
            read(GOOD[:at])
    with pytest.raises(errors.DataLossError):
        read(GOOD + b"\0\0\0\0")
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        opened(tmp_path / "nowhere")


def test_a_file_with_sound_sums_and_wrong_weights_is_refused() -> None:
    for values, what in (([1.0, -2.0], "weight 1 is -2.0"), ([np.nan, 1.0], "weight 0 is nan"), ([0.0], "all weights")):
        with pytest.raises(errors.DataLossError, match=what):
            read(record_weights(ROOT, np.array(values, np.float32)).to_bytes())


def test_a_size_that_a_header_only_says_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for records in (0, 4, module.MOST_RECORDS, 1 << 60):
        fields = module._HEADER.pack(module.MAGIC, 1, records, ROOT, bytes(32))
        tracemalloc.start()
        with pytest.raises(errors.DataLossError, match=r"bytes for|it is of"):
            read(module._header_of(fields) + bytes(12))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    (tmp_path / "large").write_bytes(GOOD)
    with pytest.raises(errors.DataLossError, match=f"{len(GOOD)} B; the limit is 100 B"):
        opened(tmp_path / "large")


def test_other_weights_and_other_data_have_other_names() -> None:
    values = checked_values("w", [1.0, 2.0])
    names = {
        record_weights(ROOT, values).weights_id,
        record_weights(b"s" * 32, values).weights_id,
        record_weights(ROOT, checked_values("w", [2.0, 1.0])).weights_id,
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("w.npy", b"\x93NUMPY\x01\x00", "no .npy file of numbers"),
        ("w.f32", b"12345", "5 bytes: neither .npy, .tfqw nor raw float32"),
        ("w.f32", b"", "0 bytes: neither"),
        ("w.tfqw", GOOD[:-1], "bytes for 3 records"),
        ("w.f32", np.array([1, -1], np.float32).tobytes(), r"\[1\]=-1.0: must be finite"),
    ],
)
def test_files_that_are_no_weights(tmp_path: Path, name: str, data: bytes, what: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises((errors.InvalidArgumentError, errors.DataLossError), match=what):
        Weighted(tmp_path / name)


def test_an_array_of_objects_is_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(errors.DataLossError, match=r"no \.npy file of numbers"):
        Weighted(tmp_path / "w.npy")


def test_arguments_that_do_not_go_together(tmp_path: Path) -> None:
    some = np.ones(4)
    for wrong, what in (
        (lambda: Weighted({"*": 1.0}, replacement=False), "replacement=, copies=: with weights of records only"),
        (lambda: Weighted([1.0], copies=2), "replacement=, copies=: with weights of records only"),
        (lambda: Weighted(some, copies=65), "copies=65"),
        (lambda: Weighted(some, copies=2, replacement=False), "copies=2: not with replacement=False"),
        (lambda: Weighted("gs://b/w.npy"), "give a file of this machine, or the weights as an array"),
        (lambda: Weighted(7), "weights=7: must be"),  # type: ignore[arg-type]
    ):
        with pytest.raises(errors.InvalidArgumentError, match=what):
            wrong()
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        Weighted(tmp_path / "nowhere")
    assert Weighted(some) == Weighted(some.copy())
    assert Weighted(some) != Weighted(2 * some)


def test_picks_that_cannot_be_are_refused() -> None:
    good = RecordPicks(ROOT, 3, 1, 0.5, 10)
    assert record_picks(good.message()) == good
    assert (good.pick_bytes(8), good.pick_bytes(9)) == (1, 2)
    assert MOST_PICK_BYTES % 8 == 0
    for field, value in (("weights_id", b""), ("planes", 0), ("planes", 65), ("planes", 2), ("most_key", float("nan"))):
        message = good.message()
        setattr(message, field, value)
        with pytest.raises(errors.ProtocolError, match=f"picks.{'most_key' if value == 2 else field}"):
            record_picks(message)
