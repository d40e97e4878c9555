from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tfquiver import errors
from tfquiver.registering.listed import listed


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """A line for each search for garbage, which are frequent meanwhile."""
    found: list[int] = []

    def began(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            found.append(info["generation"])

    before = gc.get_threshold()
    gc.callbacks.append(began)
    gc.set_threshold(20, 1, 1)
    yield found
    gc.set_threshold(*before)
    gc.callbacks.remove(began)


def test_listing_many_files_is_not_held_up_by_searches_for_garbage(tmp_path: Path, collections: list[int]) -> None:
    for number in range(500):
        (tmp_path / f"{number:03d}").touch()
    collections.clear()
    files, _ = listed(f"{tmp_path}/*")
    searched = len(collections)
    assert len(files) == 500
    assert searched <= 2, "but for what began before and comes after"
    assert gc.isenabled()


def test_garbage_is_looked_for_after_a_listing_that_failed(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError):
        listed(f"{tmp_path}/*")
    assert gc.isenabled()
