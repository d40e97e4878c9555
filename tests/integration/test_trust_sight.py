"""What people are told of data sets that are another's: that they may not see them, not that there are none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import numbered
from tests.support.trusted import Trusted
from tfquiver.cli.main import main


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Trusted]:
    made = Trusted(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_data_sets_of_others(
    cluster: Trusted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = numbered.write(tmp_path / "data", 1, 10, 100)[0]
    monkeypatch.setenv("TFQUIVER_SERVICE", cluster.coordinator.address)

    def said(who: str, *command: str) -> tuple[int, str]:
        monkeypatch.setenv("TFQUIVER_AUTH_TOKEN_FILE", str(cluster.token_file(who)))
        code = main(list(command))
        out, err = capsys.readouterr()
        return code, " ".join((out + err).split())

    code, told = said("ann", "dataset", "create", "own", f"--source={source}")
    assert code == 0, told
    assert "own" in said("ann", "dataset", "list")[1]
    code, told = said("blue", "dataset", "list")
    assert (code, told.partition(":")[0]) == (0, "no data set yet that you may read")
    (tmp_path / "mounted").mkdir()
    for command in (
        ["dataset", "show", "own"],
        ["mount", "own", str(tmp_path / "mounted"), f"--cache_dir={tmp_path / 'a'}"],
    ):
        code, told = said("blue", *command)
        assert code == 1
        assert "that you may read" in told
        assert "its owner shares one: tfquiver dataset share" in told
    assert said("ann", "dataset", "share", "own", "--with", "blue")[0] == 0
    assert "own" in said("blue", "dataset", "list")[1]
