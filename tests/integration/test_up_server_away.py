"""A server of a running `tfquiver up` is killed: what `tfquiver status` says until it is back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import status_schema
from tests.support.cluster import die_with_parent, first_line, tensorflow_env, wait_until
from tfquiver import durable, errors
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.cluster_address import running
from tfquiver.node_daemon_and_notes_in_directories import up_file

pytestmark = pytest.mark.slow
READY_S = 120.0


@contextmanager
def up(at: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tfquiver", "up", str(at), "--workers=0", "--port=0", "--json", "--quota=50MB"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=tensorflow_env(), preexec_fn=die_with_parent
    ) as process:
        try:
            json.loads(first_line(process, READY_S))
            yield process
        finally:
            process.terminate()


@contextmanager
def killed(of_up: subprocess.Popen[bytes], at: Path, server: str, lock: str) -> Iterator[None]:
    """It is not there in here: a directory stands in the place of its log, and `up`, which has seen that it ended, is
    stopped, so that it does not give up."""
    log = at / "log" / f"{server}.log"
    log.rename(aside := log.with_suffix(".aside"))
    log.mkdir()
    os.kill(int(durable.holder(at / lock) or 0), signal.SIGKILL)
    try:
        wait_until(lambda: server in up_file.away(at), "`up` has seen it", READY_S)
        of_up.send_signal(signal.SIGSTOP)
        yield
    finally:
        log.rmdir()
        aside.rename(log)
        of_up.send_signal(signal.SIGCONT)


def problems(at: Path) -> list[str]:
    told = status.status(str(at))
    status_schema.check(told)
    return list(told.get("problems", ()))


def test_a_killed_node_is_away_and_is_started_again_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was called a directory in which no node runs: no word of `up`, nor of the coordinator."""
    at = tmp_path / "cache"
    with up(at) as process:
        assert problems(at) == []
        with killed(process, at, "node", "node.lock"):
            away = f"the node of `tfquiver up` (pid {process.pid}) in {at} ended (SIGKILL) and is started again"
            assert [line.partition(", which")[0] for line in problems(at)] == [away], "and nothing of it twice"
            main(["doctor", "--no_op", "--json", str(at)])
            found = json.loads(capsys.readouterr().out)
            assert [one["why"].startswith(away) for one in found if away in one["why"] + one["do"]] == [True]
            assert not [one for one in found if "does not answer" in one["why"]]
            monkeypatch.delenv("TFQUIVER_SERVICE", raising=False)
            assert str(at) in running.found(), "it is found without being named"
            capsys.readouterr()
            assert main(["status", str(at)]) == 0
            shown = capsys.readouterr().out
            assert shown.startswith(f"! {away}") and "\ncoordinator localhost:" in shown
        wait_until(lambda: problems(at) == [], "it is back, and nothing is wrong", READY_S)
        began = time.monotonic()
        os.kill(int(durable.holder(at / "node.lock") or 0), signal.SIGKILL)
        (at / "node.json").unlink(missing_ok=True)  # as the one that starts does, before it is ready
        assert status.status(str(at))["coordinator"].startswith("localhost:")
        wait_until((at / "node.json").exists, "it is back", READY_S)
        assert time.monotonic() - began < READY_S / 4


def test_of_a_killed_coordinator_it_is_said_who_starts_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = tmp_path / "cache"
    with up(at) as process, killed(process, at, "coordinator", "coordinator/lock"):
        with pytest.raises(errors.UnavailableError) as raised:
            status.status(str(at))
        said = f"the coordinator of `tfquiver up` (pid {process.pid}) in {at} ended (SIGKILL) and is started again"
        assert str(raised.value).startswith(said) and "is the address right" not in str(raised.value)
        for where in str(at), f"localhost:{up_file.read(at).coordinator}":
            assert main(["doctor", "--no_op", "--json", where]) == 1
            assert [one["do"].startswith(said) for one in failed(capsys.readouterr().out)] == [True], where
    assert main(["doctor", "--no_op", "--json", str(at)]) in (0, 1)
    (again,) = (one["do"] for one in json.loads(capsys.readouterr().out) if "tfquiver up" in one["do"])
    assert again == f"`tfquiver up {at}` goes on with the cluster that ran there"


def failed(told: str) -> list[dict[str, str]]:
    return [one for one in json.loads(told) if one["verdict"] == "fail"]
