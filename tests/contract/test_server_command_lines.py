"""The servers' command lines: help, version, and arguments nobody should type."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import tfquiver
from tests.support import warm

pytestmark = pytest.mark.slow  # each starts a server

SERVERS = ("coordinator", "dispatcher", "extender", "node", "operator", "worker")
PROGRAMS = {"extender": "tfquiver-scheduler-extender"}  # of other names than their folders


def run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return warm.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=60, cwd=cwd)


@cache
def helped(server: str) -> subprocess.CompletedProcess[str]:
    return run(f"tfquiver.service.{server}.main", "--help")


@pytest.mark.parametrize("server", SERVERS)
def test_drawn_at_random(server: str, seed: int) -> None:
    done = run("tests.support.flag_lines", server, str(seed))
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"0", "2"}


@pytest.mark.parametrize("server", SERVERS)
def test_help_shows_our_flags_with_their_defaults(server: str) -> None:
    done = helped(server)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{PROGRAMS.get(server, f'tfquiver-{server}')} [--flagfile=FILE]" in done.stdout
    assert "\n  --auth_token_file=\n" in done.stdout
    assert "--port=" in done.stdout
    assert "logtostderr" not in done.stdout, "absl's own are --helpfull's"
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.parametrize(
    ("server", "first", "said"),
    [
        ("coordinator", ["--work_dir=STRING   (required)"], "Flags: --work_dir is required."),
        ("node", ["--cache_dir=STRING   (required)", "--port=INT   (no default)"], "Flags: --cache_dir is required."),
        (
            "dispatcher",
            ["--work_dir=STRING   (required)", "--coordinator=STRING   (see above)", "--node_dir=STRING   (see above)"],
            "Flags: --work_dir is required; give exactly one of --node_dir (a running node) and --coordinator (for",
        ),
        (
            "worker",
            [
                "--dispatcher=STRING   (required)", "--cache_dir=STRING   (see above)",
                "--coordinator=STRING   (see above)", "--node_dir=STRING   (see above)",
            ],
            "Flags: --dispatcher is required; give either --node_dir (a running node), or --cache_dir and --coordi",
        ),
    ],
)  # fmt: skip
def test_help_says_what_must_be_given(server: str, first: list[str], said: str) -> None:
    """And shows it before all else."""
    shown = helped(server).stdout
    assert [line.strip() for line in shown.splitlines() if line.startswith("  --")][: len(first)] == first
    assert said in " ".join(shown.split())
    assert shown.count("(required)") == 1


@pytest.mark.parametrize("program", ["tfquiver", *(f"tfquiver.service.{server}.main" for server in SERVERS)])
def test_version(program: str) -> None:
    done = run(program, "--version")
    assert (done.returncode, done.stdout) == (0, f"tfquiver {tfquiver.__version__}\n")


@pytest.mark.parametrize("server", ["extender", "operator"])
def test_a_package_that_is_missing_is_named(server: str) -> None:
    """As where tfquiver was installed without its extra."""
    hidden = "import sys; sys.modules['aiohttp'] = sys.modules['kopf'] = None"
    code = f"{hidden}; sys.argv = ['/bin/tfquiver-x']; from tfquiver.service.{server} import command; command.run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("tfquiver-x: needs the package ")
    assert "pip install '.[operator]' in a clone of tfquiver" in line


def test_the_package_is_a_program() -> None:
    done = run("tfquiver", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: tfquiver ")


def test_a_reader_that_has_seen_enough() -> None:
    line = f"{sys.executable} -m tfquiver.service.node.main --help | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("server", "arguments", "said"),
    [
        ("node", ["--cache_dir=c", "--fetch_deadline_s=nan"], "--fetch_deadline_s=nan: must be a finite number"),
        (
            "worker",
            ["--dispatcher=localhost:%port%", "--node_dir=n"],
            "--dispatcher=localhost:%port%: must be host:port",
        ),
        ("worker", ["--dispatcher=localhost:99999", "--node_dir=n"], "must be host:port"),
        ("node", ["--flagfile=binary"], "--flagfile: not a text file"),
        ("node", [], "--cache_dir must be given: for example tfquiver-node --cache_dir=/ssd/tfquiver ("),
        ("node", ["--cache_dir=c", "--quta=1GiB"], "'quta': did you mean --quota?"),
        ("node", ["--flagfile=."], "directory"),
        ("node", ["--flagfile=none.flags"], "none.flags"),
        ("node", ["--cache_dir=c", f"--quota={'9' * 400}"], "--quota="),
        (
            "coordinator",
            ["--work_dir=w", "--auth_token_file=binary"],
            "--auth_token_file=binary: the first line is not",
        ),
    ],
)
def test_one_line_says_what_is_wrong(server: str, arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe" * 100)
    done = run(f"tfquiver.service.{server}.main", *arguments, cwd=tmp_path)
    assert done.returncode == (1 if "auth_token_file" in said else 2), "what is wrong with the line alone: 2"
    (line,) = done.stderr.splitlines()
    assert said in line


@pytest.mark.parametrize(
    ("server", "arguments"),
    [
        ("coordinator", ["--work_dir=w"]),
        ("dispatcher", ["--work_dir=w", "--node_dir=n"]),
        ("node", ["--cache_dir=c"]),
        ("worker", ["--dispatcher=localhost:1", "--cache_dir=c", "--coordinator=localhost:1"]),
    ],
)
def test_a_relative_directory_where_the_working_directory_was_deleted(
    server: str, arguments: list[str], tmp_path: Path
) -> None:
    """It was a traceback."""
    command = [sys.executable, "-m", f"tfquiver.service.{server}.main", *arguments]
    root = str(Path(tfquiver.__file__).parent.parent)
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *command], capture_output=True, text=True, timeout=60,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        f"tfquiver-{server}: the working directory is no longer there: cd to one that is"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--cache_dir=/dev/null/x"], 1),  # refused by the server
        (["--cache_dir=x", "--nonsense=1"], 2),  # by the command line, read as far as the unknown flag
        (["--port=x", "--cache_dir=x"], 2),  # before the format was read
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
def test_a_refusal_is_a_line_of_the_format_that_was_asked_for(arguments: list[str], code: int, as_json: bool) -> None:
    done = run("tfquiver.service.node.main", *arguments, *(["--log_format=json"] if as_json else []))
    assert done.returncode == code
    *_, line = done.stderr.splitlines()
    if as_json:
        told = json.loads(line)
        assert (told["severity"], told["server"]) == ("ERROR", "tfquiver-node")
        assert told["message"] and told["where"] and told["pid"] and told["time"]
    else:
        assert line.startswith("tfquiver-node: ")
