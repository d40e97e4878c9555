"""`tfquiver warm`, `clear` and `status` over a life of a cache directory: cold, warm, served, stopped, cleared."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfquiver
from tests.support import node_calls, numbered
from tests.support.cluster import Cluster, wait_until
from tfquiver.cli.main import main
from tfquiver.cli.sim_plan_trace_commands import reading_jobs
from tfquiver.cluster_address import running_nodes
from tfquiver.node_daemon_and_notes_in_directories import daemon, endpoints

FILES, RECORDS, RECORD_BYTES = 4, 500, 2000
TOTAL = FILES * RECORDS
SIZE_BYTES = TOTAL * (RECORD_BYTES + 16)  # TFRecord's framing takes 16
HEADS_BYTES = FILES * 12  # a scan looks at each file's beginning first: it may be compressed


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    numbered.write(directory, FILES, RECORDS, RECORD_BYTES)
    return directory


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    endpoints.close_all()
    if (tmp_path / "cache").exists():
        main(["stop", "--force", str(tmp_path / "cache")])


def status(where: str | Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["status", str(where), "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_a_cache_directory_is_warmed_served_stopped_and_cleared(
    data: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is set but what a person would: where, and what."""
    monkeypatch.setenv("TFQUIVER_SERVICE", str(cache_dir))
    assert main(["warm", f"{data}/part-*"]) == 0
    assert "part: 4.0 MB of 4.0 MB are resident" in capsys.readouterr().out
    warmed = status(cache_dir, capsys)
    assert warmed["store_bytes"] == SIZE_BYTES + HEADS_BYTES, "each byte once, though nobody knew the files before"
    assert main(["warm", f"{data}/part-*"]) == 0
    assert status(cache_dir, capsys)["store_bytes"] == SIZE_BYTES + HEADS_BYTES, "nothing is read twice"

    for _ in range(2):
        read = tfquiver.dataset(f"{data}/part-*", cache_dir=cache_dir).as_numpy_iterator()
        numbered.assert_each_once(numbered.read(read), TOTAL)
    assert status(cache_dir, capsys)["saved"]["bytes"] == SIZE_BYTES - HEADS_BYTES, (
        "read twice by a trainer, once from the store"
    )

    endpoints.close_all()
    assert main(["stop"]) == 0
    cold = status(cache_dir, capsys)
    assert not cold["running"] and cold["entries"] == warmed["nodes"][0]["entries"]
    assert cold["saved"]["bytes"] == SIZE_BYTES - HEADS_BYTES and cold["saved"]["since_s"] > 0, "that outlives the node"
    assert main(["status"]) == 0
    assert re.search(r"saved 4\.0 MB (and \d+ requests? )?since ", capsys.readouterr().out), "requests: with luck"

    assert main(["clear"]) == 0
    assert f"{cold['entries']} shards deleted" in capsys.readouterr().out
    assert status(cache_dir, capsys)["entries"] == 0
    assert main(["warm", f"{data}/part-*"]) == 0
    again = status(cache_dir, capsys)
    assert again["saved"]["store_bytes"] == 2 * SIZE_BYTES + HEADS_BYTES, (
        "read again: known files need no scan, and it adds up"
    )
    assert again["nodes"][0]["entries"] == cold["entries"]


def test_clear_while_it_is_read_loses_nobody_a_record(
    data: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    iterator = tfquiver.dataset(f"{data}/part-*", cache_dir=cache_dir).as_numpy_iterator()
    first = [next(iterator) for _ in range(TOTAL // 10)]
    assert main(["clear", "--service", str(cache_dir)]) == 0
    assert re.search(r": (1 shard|\d+ shards) deleted, ", capsys.readouterr().out)
    numbered.assert_each_once(numbered.read([*first, *iterator]), TOTAL)


def test_a_node_that_is_read_through_is_not_stopped_by_accident(
    data: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    iterator = tfquiver.dataset(f"{data}/part-*", cache_dir=cache_dir).as_numpy_iterator()
    next(iterator)
    assert main(["stop", str(cache_dir)]) == 1
    assert "1 reader is in an epoch" in capsys.readouterr().err
    assert main(["stop", "--force", str(cache_dir)]) == 0
    assert len([*iterator]) >= TOTAL - TOTAL // 2, "it was started again for its reader"


def test_a_node_that_nobody_has_named_is_not_stopped_while_somebody_reads_or_if_it_is_a_clusters(
    data: Path, cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [cache_dir]
    monkeypatch.setattr(running_nodes, "directories", lambda: found)
    monkeypatch.setattr(running_nodes, "work_dirs", list)
    iterator = tfquiver.dataset(f"{data}/part-*", cache_dir=cache_dir).as_numpy_iterator()
    next(iterator)
    for force in ([], ["--force"]):
        assert main(["stop", "--yes", *force]) == 1
        said = f"{cache_dir} is not stopped without being named: 1 reader is connected to it. If it is the one that you"
        assert said in capsys.readouterr().err
    del iterator
    endpoint = daemon.find_or_start(cache_dir)
    wait_until(lambda: not node_calls.status(endpoint.control).readers, "the reader left")
    endpoints.close_all()
    assert main(["stop", "--yes"]) == 0
    assert f"{cache_dir}: stopped the node (pid " in capsys.readouterr().out
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        found[:] = [cluster.cache_dir]
        assert main(["stop", "--yes"]) == 1
        assert "it was started neither by `tfquiver up` nor by tfquiver.dataset. If it" in capsys.readouterr().err


def test_of_empty_files_it_is_said_that_there_is_nothing_in_them(
    cache_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "train").write_bytes(b"")
    nothing, at = "there is nothing to read in it: its files are empty", ["--service", str(cache_dir)]
    daemon.find_or_start(cache_dir)
    assert main(["warm", str(tmp_path / "train"), *at]) == 0
    assert f"train: 0 B of 0 B are resident\n  {nothing}\n" in capsys.readouterr().out
    assert main(["dataset", "create", "void", *at, "--source", str(tmp_path / "train")]) == 0
    assert f"void: Ready; {nothing}\n" in capsys.readouterr().out
    assert main(["digest", "build", str(tmp_path / "train"), "-o", str(tmp_path / "x.tfqd")]) == 0
    assert f"note          {nothing}\n" in capsys.readouterr().out
    with caplog.at_level(logging.WARNING, logger="absl"):
        assert not [*tfquiver.dataset(tmp_path / "train", cache_dir=cache_dir).as_numpy_iterator()]
    assert f"data set 'train': {nothing}" in caplog.text


def test_what_does_not_fit_is_not_fetched_and_the_exit_code_says_so(
    data: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = daemon.find_or_start(cache_dir, quota_bytes=SIZE_BYTES // 2)
    assert main(["warm", f"{data}/part-*", "--service", str(cache_dir)]) == 3
    said = capsys.readouterr().out
    assert "of 4.0 MB are resident" in said and "there is no more room" in said
    assert " of the quota are free; the node's quota is 2.0 MB" in said, "not what else it might have been"
    before = node_calls.status(endpoint.control).store_bytes
    assert main(["warm", f"{data}/part-*", "--service", str(cache_dir)]) == 3
    assert node_calls.status(endpoint.control).store_bytes == before


def test_who_has_the_port_of_a_node_that_was_killed_is_not_cleared(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster, Cluster(tmp_path / "others", workers=0) as others:
        address = cluster.coordinator.address
        flags = [f"--cache_dir={tmp_path / 'gone'}", f"--coordinator={address}"]
        gone = cluster.add("node", *flags).start()
        wait_until(lambda: len(node_calls.nodes(address)) == 2, "both are members")
        gone.kill()
        their = [f"--cache_dir={tmp_path / 'theirs'}", f"--coordinator={others.coordinator.address}"]
        others.add("node", *their, f"--port={gone.ready['port']}").start()
        wait_until(lambda: len(node_calls.nodes(others.coordinator.address)) == 2, "theirs is one, too")
        assert main(["warm", f"{data}/part-*", "--service", others.coordinator.address]) == 0
        kept = sum(node["entries"] for node in status(others.coordinator.address, capsys)["nodes"])
        assert main(["clear", address]) == 1
        assert "is gone: another node, " in capsys.readouterr().out
        (error,) = (node["error"] for node in status(address, capsys)["nodes"] if "error" in node)
        assert "is gone: another node, " in error, "nothing of it is shown as this cluster's"
        assert reading_jobs.store_bytes(node_calls.nodes(address), "") is None, "nor counted by plan"
        assert sum(node["entries"] for node in status(others.coordinator.address, capsys)["nodes"]) == kept


def test_two_nodes_each_read_their_own_part_once(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        second = cluster.add(
            "node", f"--cache_dir={tmp_path / 'second'}", f"--coordinator={cluster.coordinator.address}"
        ).start()
        address = cluster.coordinator.address
        wait_until(lambda: len(node_calls.nodes(address)) == 2, "both are members")
        assert main(["warm", f"{data}/part-*", "--service", address]) == 0
        told = status(address, capsys)
        assert told["problems"] == []
        assert main(["clear", address]) == 0
        assert [node["entries"] for node in status(address, capsys)["nodes"]] == [0, 0]
        assert main(["warm", f"{data}/part-*", "--service", address]) == 0
        told = status(address, capsys)
        assert sum(node["entries"] for node in told["nodes"]) == FILES, "each shard at its owner alone"
        second.kill()
        assert main(["warm", f"{data}/part-*", "--service", address]) == 1
        assert "does not answer: nobody listens there (connection refused)" in capsys.readouterr().err
        assert main(["clear", address]) == 1, "one node does not answer; the other is cleared"
        said = capsys.readouterr().out
        assert (
            re.search(r": (1 shard|\d+ shards) deleted", said) and "nobody listens there (connection refused)" in said
        )


def test_a_damaged_file_is_an_error_that_names_it(
    tmp_path: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, second = numbered.write(tmp_path / "own", 2, 100, RECORD_BYTES)
    with second.open("r+b") as file:
        file.seek(5000)
        file.write(b"damage")
    assert main(["warm", f"{tmp_path}/own/*", "--service", str(cache_dir)]) == 1
    assert f"{second}" in capsys.readouterr().err
