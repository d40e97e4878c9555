"""A data set's name with a slash behind it is a directory: where there is none, it is said how a name is given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

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


class _Bytes(os.PathLike[Any]):
    def __fspath__(self) -> bytes:
        return b"/data/train"


def test_what_can_name_no_file_is_refused() -> None:
    """Half a character, as of a JSON file that was cut; a path whose text is bytes. Both were tracebacks."""
    with pytest.raises(errors.InvalidArgumentError, match="cannot be the name of a file"):
        describe("/data/\ud800", FirstUse(), False)
    with pytest.raises(errors.InvalidArgumentError, match="must be a path or a sequence of paths"):
        describe(_Bytes(), FirstUse(), False)
