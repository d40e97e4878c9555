"""`tfquiver up --prometheus FILE` beside the real Prometheus: told of every server, also of one that was started again
at another port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.cluster import die_with_parent, first_line, tensorflow_env, wait_until
from tests.support.prometheus_server import Prometheus
from tests.support.promtool import needs_prometheus

READY_S = 120.0


@contextmanager
def up(at: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """The process, and what it says when it is ready."""
    command = [sys.executable, "-m", "tfquiver", "up", str(at), "--workers=0", "--port=0", "--json", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=tensorflow_env(), preexec_fn=die_with_parent
    ) as process:
        try:
            yield process, json.loads(first_line(process, READY_S))
        finally:
            process.terminate()


@needs_prometheus
def test_prometheus_is_told_where_the_servers_of_up_are(tmp_path: Path) -> None:
    at, targets = tmp_path / "cache", tmp_path / "targets.json"
    with up(at, "--quota=50MB", f"--prometheus={targets}") as (process, said):
        assert sorted(said["metrics"]) == ["coordinator", "node"]
        assert targets.stat().st_mode & 0o777 == 0o644, "Prometheus is another user"
        prometheus = Prometheus(tmp_path / "prometheus", targets)
        try:
            servers = 'up{job="tfquiver"} == 1'
            wait_until(lambda: len(prometheus.values(servers)) == 2, "both are seen", 60)
            assert prometheus.values("tfquiver_coordinator_nodes") == [1]
            began = f'process_start_time_seconds{{instance="node in {at}"}}'
            [before] = prometheus.values(began)
            os.kill(json.loads((at / "node.json").read_text())["pid"], signal.SIGKILL)
            wait_until(lambda: said["metrics"]["node"] not in targets.read_text(), "it is told of the next one", 60)
            wait_until(lambda: prometheus.values(f"{began} > {before}"), "that is seen under the same name", 60)
        finally:
            prometheus.close()
        process.terminate()
        process.wait(60)
    assert json.loads(targets.read_text()) == [], "what was stopped is not missed"
