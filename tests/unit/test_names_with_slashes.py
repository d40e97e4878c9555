"""A data set's name with a slash behind it is a directory: where there is none, it is said how a name is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfquiver import errors
from tfquiver.data_sources_found_and_registered.described import describe
from tfquiver.users_arguments_checked.option_groups import FirstUse


def test_a_name_with_a_slash_is_told_from_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.NotFoundError, match=r"no match for blue/; a data set .* without a slash: 'blue'"):
        describe("blue/", FirstUse(), False)
    with pytest.raises(errors.NotFoundError, match=r"no match for \S*/data/$"):
        describe(f"{tmp_path}/data/", FirstUse(), False)
