from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tfquiver import errors
from tfquiver.data_sources_found_and_registered.listed import default_name, listed
from tfquiver.glob_patterns_and_file_trees import files_under
from tfquiver.stores import ObjectInfo, local


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


def test_many_names_take_few_threads_and_one_look_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread each took ten times as long as the listing of their directory. (Where the library does not do it.)"""
    names = [tmp_path / f"{number % 3}" / f"{number:04d}" for number in range(3000)]
    for number in range(3):
        (tmp_path / f"{number}").mkdir()
    for name in names:
        name.touch()
    started, looks, start, look = list[str](), list[str](), threading.Thread.start, os.stat

    def counted(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    def looked(path: Any, **options: Any) -> os.stat_result:
        looks.append(os.fspath(path))
        return look(path, **options)

    monkeypatch.setattr(threading.Thread, "start", counted)
    monkeypatch.setattr(local.os, "stat", looked)
    monkeypatch.setattr(files_under, "_library", lambda: None)
    files, _ = listed(names)
    monkeypatch.undo()
    assert [file.uri for file in files] == sorted(f"file://{name}" for name in names)
    assert started.count("store call") == 1 + -(-3000 // local._AT_ONCE), "the library is asked first"
    assert sorted(look for look in looks if look.startswith(f"{tmp_path}/")) == sorted(map(str, names))


def test_of_many_names_the_first_that_is_wrong_is_told(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "to nothing").symlink_to(tmp_path / "nothing")
    for wrong, error in (
        ("nothing", errors.NotFoundError),
        ("directory", errors.InvalidArgumentError),
        ("to nothing", errors.NotFoundError),
    ):
        for others in (["there", "also not there"], ["there", "directory"]):
            with pytest.raises(error, match=f"{wrong}"):
                listed([f"{tmp_path}/{name}" for name in (others[0], wrong, others[1])])
    patterns = [f"{tmp_path}/th*", f"{tmp_path}/[d]irect*", f"{tmp_path}/there"]
    with pytest.raises(errors.NotFoundError, match=r"no match for .*\[d\]irect"):
        listed(patterns)


def test_the_name_that_hangs_among_many_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / name).touch()
    stuck, store = threading.Event(), local.LocalStore()
    look = store._listed

    def hangs(pattern: str, until_s: float) -> list[ObjectInfo]:
        if pattern.endswith("b"):
            stuck.wait()
        return look(pattern, until_s)

    monkeypatch.setattr(local, "_LIST_DEADLINE_S", 0.05)
    monkeypatch.setattr(store, "_listed", hangs)
    try:
        with pytest.raises(errors.UnavailableError, match="/b: no answer in"):
            list(store.list_each(f"{tmp_path}/{name}" for name in "abc"))
    finally:
        stuck.set()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("gs://bucket/train-*", "train"),
        (["data/train-00000-of-00012.tfrecord"], "train-00000-of-00012.tfrecord"),
        ("/nfs/packed/*.tfrecord", "packed"),
        ("gs://bucket/photos-*/[0-9]*", "photos"),
        ("gs://bucket/*", "bucket"),
        ("*.tfrecord", "*.tfrecord"),
        ("./*", "./*"),
    ],
)
def test_a_data_set_is_called_as_what_does_not_vary(source: str | list[str], name: str) -> None:
    assert default_name(source) == name
