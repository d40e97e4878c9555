"""What `tfquiver.dataset` and `distribute` read from when they are told by argument, directory or environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfquiver import durable, errors
from tfquiver.cluster_address import naming
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports


def test_the_cluster_of_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFQUIVER_SERVICE", "head:5040")
    assert naming.cluster(None, None) == (None, "head:5040")
    assert naming.cluster("/ssd", None) == ("/ssd", None), "what is given counts"
    assert naming.cluster("/ssd", "other:1") == ("/ssd", "other:1")
    assert naming.cluster(None, str(tmp_path)) == (str(tmp_path), None)
    monkeypatch.setenv("TFQUIVER_SERVICE", "/ssd/not/yet/there")
    assert naming.cluster(None, None) == ("/ssd/not/yet/there", None)
    with pytest.raises(errors.InvalidArgumentError, match="service='/ssd/not/yet/there': must be"):
        naming.cluster(None, "/ssd/not/yet/there")
    monkeypatch.delenv("TFQUIVER_SERVICE")
    with pytest.raises(errors.InvalidArgumentError, match="TFQUIVER_SERVICE"):
        naming.cluster(None, None)


def test_the_dispatcher_of_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert naming.dispatcher("grpc://head:5050") == "head:5050"
    monkeypatch.setenv("TFQUIVER_SERVICE", "head:5040")
    with pytest.raises(errors.InvalidArgumentError, match="dispatcher=None: give the dispatcher's address"):
        naming.dispatcher(None)
    monkeypatch.setenv("TFQUIVER_SERVICE", str(tmp_path))
    with pytest.raises(errors.NotFoundError, match="no `tfquiver up` runs there"):
        naming.dispatcher(None)
    for missing in (tmp_path / "cahce", f"{tmp_path}/cahce"):
        with pytest.raises(errors.NotFoundError, match="cahce': no such directory; `tfquiver up` makes it"):
            naming.dispatcher(missing)
    with pytest.raises(errors.InvalidArgumentError, match="dispatcher='head': must be host:port"):
        naming.dispatcher("head")
    up_file.write(tmp_path, Ports(5040, 5050))
    with os.fdopen(durable.lock_file(tmp_path / up_file.LOCK_FILE)) as lock:
        assert durable.try_lock(lock.fileno())
        assert naming.dispatcher(None) == naming.dispatcher(tmp_path) == "localhost:5050"


@pytest.mark.parametrize(
    ("started_as", "program"),
    [
        ("/home/ann/train.py", "train"),
        ("train", "train"),
        ("/venv/lib/ipykernel_launcher.py", "notebook"),
        ("/home/ann/sweep/__main__.py", "sweep"),
        ("-c", "c"),
        ("", "python"),
        ("/x/пример: a b.py", "a_b"),
        ("/x/" + "y" * 300 + ".py", "y" * 24),
    ],
)
def test_the_program_by_which_people_recognise_a_session(started_as: str, program: str) -> None:
    assert naming.program(started_as) == program
    assert naming.session_key() != naming.session_key() and ":" not in naming.session_key()


def test_a_directory_twice_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"so does cache_dir=.*give one of them"):
        naming.cluster(tmp_path, str(tmp_path))
