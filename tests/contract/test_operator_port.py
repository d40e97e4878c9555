"""The operator says whose port it cannot have, and begins nothing."""

from __future__ import annotations

import socket
import subprocess
import sys

from tests.support.cluster import tensorflow_env


def test_a_port_that_another_program_has_is_named() -> None:
    """It was a traceback, and an operator that had begun to look at objects."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = ["--coordinator=localhost:1", "--kubernetes_api=http://127.0.0.1:1", f"--port={port}"]
        command = [sys.executable, "-m", "tfquiver.service.operator.main", *flags]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=tensorflow_env(), check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    (line,) = ended.stderr.splitlines()
    assert f"--port: cannot listen on 0.0.0.0:{port}: another program has that port" in line
    assert not ended.stdout
