"""Which files of a dispatcher's data sets its disk has not taken; each is told of once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfquiver.scanning import tfrecord
from tfquiver.service.dispatcher.lost_datasets import LostDatasets

WHOLE = tfrecord.frame(b"graph")


@pytest.mark.parametrize("taken", [b"", WHOLE[:5], WHOLE[:-1]])
def test_what_is_cut_off_is_told_of_once_when_it_is_so_for_two_looks(tmp_path: Path, taken: bytes) -> None:
    lost = LostDatasets(tmp_path)
    assert lost.look() == [], "no trainer has come yet"
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "1000").write_bytes(WHOLE)
    (tmp_path / "datasets" / "1001").write_bytes(taken)
    (tmp_path / "datasets" / "1002").write_bytes(taken)
    assert lost.look() == [], "they may be being written"
    (tmp_path / "datasets" / "1002").write_bytes(WHOLE)
    assert [lost.look() for _ in range(3)] == [["1001"], [], []]
