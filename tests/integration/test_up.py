"""`tfquiver up`, `status` and `stop`, typed as a person types them: real processes, killed as they may be."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import tfquiver
from tests.support import numbered
from tests.support.cluster import Server, tensorflow_env, wait_until
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.local_cluster import plan
from tfquiver.local_cluster.plan import Wish
from tfquiver.node_daemon_and_notes_in_directories import endpoints, up_file
from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports
from tfquiver.service.coordinator.nodes_mounts_dispatchers import dispatchers

pytestmark = pytest.mark.long

RECORDS = 300
MISSED_MS = 1000 * dispatchers.SILENT_DISPATCHER_S + 1000
READY_S = 240.0
ANY_PORTS = ("--port=0", "--dispatcher_port=0")


class Up:
    """One `tfquiver up` with the directory `at`."""

    def __init__(self, at: Path, *arguments: str) -> None:
        self.at = at
        self.said = at.parent / "up.said"
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tfquiver", "up", str(at), *arguments],
                stdout=subprocess.PIPE, stderr=said, env=tensorflow_env(),
            )  # fmt: skip

    def lines(self, until: str) -> list[str]:
        """What it prints, to the line that has `until` in it."""
        assert self.process.stdout is not None
        read = []
        for line in self.process.stdout:
            read.append(line.decode())
            if until in read[-1]:
                return read
        raise AssertionError(f"{read}\n{self.said.read_text()}")

    def servers(self) -> dict[str, psutil.Process]:
        """By the first word that tells them apart: coordinator, node, dispatcher, worker."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error, IndexError):  # it has ended, or is not yet what it will be
                words = child.cmdline()[2].split(".")
                if words[:2] == ["tfquiver", "service"]:
                    found[words[2]] = child
        return found

    def says(self, what: str) -> None:
        wait_until(lambda: what in self.said.read_text(), f"it says {what!r}", READY_S)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(READY_S)
        finally:
            self.process.kill()
            assert self.process.stdout is not None
            self.process.stdout.close()


@contextmanager
def up(at: Path, *arguments: str) -> Iterator[Up]:
    running = Up(at, *arguments)
    try:
        yield running
    finally:
        running.end()


def gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=15)
    assert not alive


def test_the_welcome_is_all_that_a_person_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is set that nobody would set; the two lines of code are those that it prints."""
    at = tmp_path / "cache"
    paths = numbered.write(tmp_path / "data", 2, RECORDS // 2, 1000)
    with up(at) as running:
        said = "".join(running.lines("Ctrl-C"))
        code = [line.strip() for line in said.splitlines() if line.startswith("    data = ")]
        assert len(code) == 2
        names: dict[str, Any] = {"tfquiver": tfquiver, "FILES": [str(path) for path in paths]}
        for line in code:
            exec(line, names)
        numbered.assert_each_once(numbered.read(names["data"]), RECORDS)
        servers = list(running.servers().values())
        assert len(servers) == 4
        monkeypatch.setenv("TFQUIVER_SERVICE", str(at))
        assert main(["status"]) == 0
        reading = iter(names["data"].repeat())
        next(reading)
        assert main(["stop"]) == 1, "somebody reads, through its tf.data service"
        assert "--force stops it anyway" in capsys.readouterr().err
        del reading
        endpoints.close_all()  # else this process would start a node of its own in the directory
        assert main(["stop", "--force"]) == 0
        assert running.process.wait(60) == 0
        gone(servers)
    told = running.said.read_text()
    assert "everything is stopped" in told
    assert [line for line in told.splitlines() if "so far up: " in line] == [
        f"tfquiver up: {plan.progress(Wish(at), number)}" for number in (1, 2, 3)
    ]


def test_what_is_killed_is_started_again_and_an_up_that_is_killed_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = tmp_path / "cache"
    with up(at, "--json", *ANY_PORTS) as first:
        ready = json.loads(first.lines('"server"')[0])
        assert up_file.dispatcher_address(at) == ready["dispatcher"]
        second = subprocess.run([sys.executable, "-m", "tfquiver", "up", str(at)], capture_output=True, text=True)
        assert second.returncode == 1
        assert f"`tfquiver up` runs there already (pid {first.process.pid}); `tfquiver stop" in second.stderr
        for kind in plan.KINDS:
            first.servers()[kind].kill()
            first.says(f"{kind}-0 (pid " if kind == "worker" else f"{kind} (pid ")
        for kind in plan.KINDS:
            wait_until(lambda kind=kind: kind in first.servers(), f"{kind} runs again", READY_S)  # type: ignore[misc]
        wait_until(lambda: first.said.read_text().count("runs again") == 4, "all run again", READY_S)
        paths = numbered.write(tmp_path / "data", 2, RECORDS // 2, 1000)
        data = tfquiver.dataset(paths, cache_dir=at).apply(tfquiver.distribute(ready["dispatcher"]))
        numbered.assert_each_once(numbered.read(data), RECORDS)
        endpoints.close_all()
        servers = list(first.servers().values())
        first.process.kill()
        first.process.wait()
        with up(at, "--workers=0", "--json") as without:
            without.lines('"server"')
            gone(servers)
            wait_until(lambda: status.collect(str(at))["coordinator_up_ms"] > MISSED_MS, "it would be missed by now")
            problems = status.collect(str(at))["problems"]
            assert not [one for one in problems if "dispatcher" in one], "nobody wants the one that was killed with it"
            without.process.send_signal(signal.SIGINT)
            assert without.process.wait(READY_S) == 0
        with up(at, "--workers=1", "--json") as again:
            ready_again = json.loads(again.lines('"server"')[0])
            for server in ("coordinator", "dispatcher", "workers"):
                assert ready_again[server] == ready[server], "clients find it where it was"
            capsys.readouterr()
            assert main(["dataset", "list", "--service", str(at), "--json"]) == 0
            (known,) = json.loads(capsys.readouterr().out)["datasets"]
            assert known["records"] == RECORDS, "what was registered is known"
            servers = list(again.servers().values())
            again.process.send_signal(signal.SIGINT)
            assert again.process.wait(READY_S) == 0
            gone(servers)


def test_up_again_keeps_what_it_was_given_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = tmp_path / "cache"
    with up(at, "--workers=0", "--quota=70MB", "--node_flag=--codec=raw", "--json", *ANY_PORTS) as first:
        first.lines('"server"')
        assert main(["stop", str(at)]) == 0
        assert first.process.wait(60) == 0
    assert "as last time" not in first.said.read_text()
    with up(at, "--json") as again:
        ready = json.loads(again.lines('"server"')[0])
        assert ready["workers"] == [] and ready["dispatcher"] == ""
        capsys.readouterr()
        assert main(["status", str(at), "--json"]) == 0
        (node,) = json.loads(capsys.readouterr().out)["nodes"]
        assert node["quota_bytes"] == 70_000_000
    said = again.said.read_text()
    assert "tfquiver up: as last time: --workers=0 --quota=70MB (give what shall be otherwise)" in said
    assert "to be given each time: --node_flag=--codec=raw" in said


def test_a_server_that_does_not_start_ends_it_all_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "cache" / "log" / "node.log"
    log.parent.mkdir(parents=True)
    log.write_text("what a node said that ran yesterday\n" * 3)
    with up(tmp_path / "cache", "--workers=0", "--port=0", "--node_flag=--codec=none") as running:
        assert running.process.wait(READY_S) == 1
        said = running.said.read_text()
    assert "the node did not start" in said and "--codec" in said
    assert f"; the end of {log}:\n    tfquiver-node: " in said and "yesterday" not in said
    assert "Traceback" not in said
    assert not up_file.is_up(tmp_path / "cache")


def test_an_up_whose_directory_is_deleted_ends_and_leaves_what_others_make_there(tmp_path: Path) -> None:
    at = tmp_path / "cache"
    with up(at, "--workers=0", "--json", *ANY_PORTS) as first:
        first.lines('"server"')
        servers = list(first.servers().values())
        at.rename(tmp_path / "gone")
        assert first.process.wait(60) == 1
        gone(servers)
    said = first.said.read_text()
    assert re.search(f'{{"error": "{at} was deleted: (node|coordinator) ended', said) and "Traceback" not in said
    assert not at.exists()


def test_a_trainers_own_node_is_taken_over_in_the_middle_of_its_epoch_and_given_back(tmp_path: Path) -> None:
    at = tmp_path / "cache"
    paths = numbered.write(tmp_path / "data", 4, RECORDS, 20_000)
    try:
        reading = tfquiver.dataset(paths, cache_dir=at).as_numpy_iterator()
        seen = [next(reading) for _ in range(RECORDS // 2)]
        pid = int((at / "node.lock").read_text())
        with up(at, "--workers=0", "--port=0", "--json") as running:
            running.lines('"server"')
            running.says(f"a training process had started a node here (pid {pid}): this cluster takes over")
            seen += [next(reading) for _ in range(RECORDS)]
        numbered.assert_each_once(numbered.read([*seen, *reading]), 4 * RECORDS)
    finally:
        endpoints.close_all()
        main(["stop", "--force", str(at)])


def test_a_node_that_is_to_stay_is_not_taken_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = tmp_path / "cache"
    node = Server("tfquiver.service.node.main", [f"--cache_dir={at}"], tmp_path / "node.log").start()
    try:
        done = subprocess.run([sys.executable, "-m", "tfquiver", "up", str(at)], capture_output=True, text=True)
        assert done.returncode == 1
        assert f"another server has node.lock (pid {node.process.pid}); `tfquiver stop {at}`" in done.stderr
        assert main(["stop", str(at)]) == 0
        assert f"stopped the node (pid {node.process.pid})" in capsys.readouterr().out
        assert node.process.wait(60) == 0
        assert main(["stop", str(at)]) == 0
        assert "nothing runs there" in capsys.readouterr().out
    finally:
        node.stop()


@pytest.mark.parametrize("kind", plan.KINDS)
def test_the_servers_take_the_flags_that_up_gives_them(kind: str, tmp_path: Path) -> None:
    """Each refuses what follows, and nothing that the plan gives it."""
    wish = Wish(tmp_path, quota="5GiB", flags={kind: ["--no_such_flag"]})
    (server,) = (one for step in plan.servers(wish) for one in step if one.kind == kind)
    command = [sys.executable, "-m", server.module, *plan.arguments(server, wish, Ports(1, 2, [3]))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)
    assert done.returncode == 2
    assert "no_such_flag" in done.stderr and done.stderr.count("\n") == 1
