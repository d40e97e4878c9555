"""The files that the README's first lines read: made by one command, without TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.packs import read
from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.demo import sample_files


def test_four_small_files_of_numbers_by_their_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", f"--data={tmp_path / 'data'}"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/data: 4 files, train-00000-of-00004 and so on, of 2000 records\n"
    files = sorted((tmp_path / "data").iterdir())
    records = [record for path in files for record in read(path)]
    assert len(files) == 4 and len(records) == 2000
    assert {len(record["x"]) for record in records} == {16}
    assert {record["label"][0] for record in records} == {*range(10)}
    right = sum(max(range(16), key=record["x"].__getitem__) == record["label"][0] for record in records)
    assert right > 1800, "it can be learnt"
    before = [path.read_bytes() for path in files]
    assert [path.read_bytes() for path in sample_files.write(tmp_path / "data")] == before, "the same ones each time"


def test_where_they_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(errors.TfquiverError, match="file"):
        sample_files.write(tmp_path / "file" / "data")


@pytest.mark.slow
def test_tensorflow_is_not_loaded_for_them(tmp_path: Path) -> None:
    code = "import sys; from tfquiver.cli.main import main; main(sys.argv[1:]); assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, "demo", f"--data={tmp_path}"], check=True)
