"""A running cluster's jobs are recorded, and simulated again: default flags, real jobs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tfquiver
from tests.support import numbered, warm
from tests.support.cluster import Cluster, wait_until
from tfquiver.cli.main import main

RECORD_BYTES = 8192
paths = numbered.fixture(files=2, records_a_file=500, record_bytes=RECORD_BYTES)
EPOCHS = 3
TOTAL_BYTES = EPOCHS * 1000 * (RECORD_BYTES + 16)


@contextmanager
def recording(file: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tfquiver.cli.main", "trace", "record", str(file), *flags]
    process = warm.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        assert "recording" in process.stderr.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def epochs(cluster: Cluster, paths: list[Path], job: str) -> None:
    dataset = tfquiver.dataset(paths, service=cluster.coordinator.address, cache_dir=cluster.cache_dir, job=job)
    for _ in range(EPOCHS):
        assert sum(1 for _ in dataset.as_numpy_iterator()) == 1000


def plan_while_it_reads(cluster: Cluster, paths: list[Path], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    dataset = tfquiver.dataset(
        paths, service=cluster.coordinator.address, cache_dir=cluster.cache_dir, batch_size=10, job="now"
    )
    iterator = dataset.repeat().as_numpy_iterator()

    def planned() -> bool:
        for _ in range(20):
            next(iterator)
        return main(["plan", cluster.coordinator.address, "--epochs", "5", "--json"]) == 0

    capsys.readouterr()
    wait_until(planned, "it is known what the job reads")
    told: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(told["points"]) == 5
    assert told["policy"] == "benefit"
    assert main(["policy", "lru", "--service", cluster.coordinator.address]) == 0
    capsys.readouterr()
    wait_until(planned, "the job reads on")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["policy"] == "lru", "that decides there now"
    assert main(["policy", "benefit", "--service", cluster.coordinator.address]) == 0
    return told


@pytest.mark.long
def test_recorded_and_simulated(tmp_path: Path, paths: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    file, where = tmp_path / "trace.json", ["--service"]
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        where.append(cluster.coordinator.address)
        with recording(file, *where) as process:
            epochs(cluster, paths, "a")
            epochs(cluster, paths, "b")

            told = dict[str, int]()

            def both() -> bool:
                jobs = json.loads(file.read_text()).get("trace", {}).get("jobs", [])
                told.update({job["name"]: job["recorded"]["read_bytes"] for job in jobs})
                return told == {"a": TOTAL_BYTES, "b": TOTAL_BYTES}

            try:
                wait_until(both, "both jobs are in the file, which is whole at all times")
            except TimeoutError:
                pytest.fail(f"recorded is {told} of {TOTAL_BYTES}")
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert process.stderr and "2 jobs" in process.stderr.read()

        assert "5 epochs each" in plan_while_it_reads(cluster, paths, capsys)["assumed"]
        assert main(["trace", "record", str(tmp_path / "other.json"), *where, "--for", "2", "--anonymous"]) == 0
        assert '"now"' not in (tmp_path / "other.json").read_text()
    assert main(["trace", "record", str(file), *where]) == 1
    assert "there already" in capsys.readouterr().err
    assert main(["sim", "--trace", str(file), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["read_bytes"] == pytest.approx(2 * TOTAL_BYTES)
    assert main(["plan", str(file)]) == 0
    assert "2 jobs, policy benefit" in capsys.readouterr().out


def test_the_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, said in (
        (["record", "/"], "/: give the name of a file"),
        (["record", str(tmp_path / "no" / "file"), "--service", "localhost:1"], "there is no directory "),
        (["record", "x" * 5000], "File name too long"),
        (["record", "x\0y"], "null"),
    ):
        assert main(["trace", *flags, "--service", "localhost:1"]) == 1
        assert said in capsys.readouterr().err
    for text in ("-1", "0", "nan", "1y", "9" * 30):
        with pytest.raises(SystemExit):
            main(["trace", "record", "x", "--for", text])
        assert "is not a duration" in capsys.readouterr().err
