"""configs/*.flags: each server takes its own file, and the file names every flag that the server has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support import warm

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SERVERS = ("coordinator", "dispatcher", "node", "worker")


def run(server: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"tfquiver.service.{server}.main", *arguments]
    return warm.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("server", SERVERS)
def test_file_is_accepted(server: str) -> None:
    done = run(server, f"--flagfile={CONFIGS / server}.flags", "--only_check_args")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("server", SERVERS)
def test_file_names_every_flag_and_says_what_it_does(server: str) -> None:
    help_xml = run(server, "--helpxml").stdout
    flags = ElementTree.fromstring(help_xml[help_xml.index("<?xml") :]).findall("flag")
    own = {str(flag.findtext("name")) for flag in flags if flag.findtext("key") == "yes"}
    paragraphs = (CONFIGS / f"{server}.flags").read_text().strip().split("\n\n")[1:]
    named = [re.search(r"^(?:# )?--(\w+)=", text, re.MULTILINE) for text in paragraphs]
    assert {match[1] for match in named if match} == own
    assert all(text.startswith("# ") and not text.startswith("# --") for text in paragraphs)


def test_a_flag_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.flags"
    path.write_text("--cache_dir=/nonexistent\n--no_such_flag=1\n")
    done = run("node", f"--flagfile={path}", "--only_check_args")
    assert done.returncode != 0
    assert "no_such_flag" in done.stderr
