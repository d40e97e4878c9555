"""configs/compose: every command line is one of ours, servers find each other, and Docker would take the file."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import warm
from tfquiver.cli.main import parser
from tfquiver.version import VERSION

ROOT = Path(__file__).parents[2]
FILE = ROOT / "configs" / "compose" / "compose.yaml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_server_takes_its_command_line(name: str) -> None:
    program, *arguments = SERVICES[name]["command"]
    assert program == f"tfquiver-{name}"
    command = [sys.executable, "-m", f"tfquiver.service.{name}.main", *arguments, "--only_check_args"]
    done = warm.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    kind, probe, *asked = SERVICES[name]["healthcheck"]["test"]
    assert (kind, probe) == ("CMD", "tfquiver")
    parser().parse_args(asked)
    port = re.search(r"--port=(\d+)", " ".join(arguments))
    assert port and f"localhost:{port[1]}" in asked
    assert SERVICES[name]["image"].endswith(f":{VERSION}")


def test_who_is_named_is_there_and_listens() -> None:
    named = 0
    for service in SERVICES.values():
        for argument in service["command"]:
            if found := re.fullmatch(r"--(coordinator|dispatcher|worker_address)=(\w+):(\d+)", argument):
                assert f"--port={found[3]}" in SERVICES[found[2]]["command"], argument
                named += 1
    assert named == 4
    assert set(SERVICES["worker"]["depends_on"]) == {"node", "dispatcher"}
    assert SERVICES["worker"]["volumes"] == SERVICES["node"]["volumes"], "the node's socket"


def test_docker_takes_the_file(tmp_path: Path) -> None:
    compose = ["docker", "compose"]
    if not shutil.which("docker") or subprocess.run([*compose, "version"], capture_output=True, timeout=60).returncode:
        if not shutil.which("docker-compose"):
            pytest.skip("needs docker compose: apt-get install docker-compose")
        compose = ["docker-compose"]
    shutil.copy(FILE, tmp_path)
    (tmp_path / "token").write_text("none")
    command = [*compose, "-f", str(tmp_path / FILE.name), "config"]
    done = warm.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == set(SERVICES)
