"""A command's module is imported when it is run, and not before: what is typed and shown is as if all were."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tfquiver.cli.main import main, parser

ROOT = Path(__file__).resolve().parents[2]
WHOLE = parser()
[COMMANDS] = [action for action in WHOLE._actions if action.metavar == "COMMAND"]
NAMES = list(COMMANDS.choices or ())


def helped(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 0
    return capsys.readouterr().out


def test_help_lists_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(NAMES) >= 23
    assert helped(["--help"], capsys) == helped(["-h"], capsys) == WHOLE.format_help()


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_one_is_whole(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(COMMANDS.choices, dict)
    said = helped([name, "--help"], capsys)
    assert said == COMMANDS.choices[name].format_help()
    assert len(said.splitlines()) > 5


@pytest.mark.parametrize("words", [["--help"], ["dataset", "--help"], ["digest", "--help"]])
def test_each_command_stands_beside_what_it_does(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    _, _, below = helped(words, capsys).partition("  COMMAND\n")
    assert [line for line in below.partition("\n\n")[0].splitlines() if len(line.split()) < 3] == []


def imported(arguments: list[str]) -> set[str]:
    """Of tfquiver's modules, and what is heavy."""
    code = (
        "import sys\nfrom tfquiver.cli.main import main\n"
        f"try:\n  main({arguments!r})\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return {
        name for name in ran.stderr.split() if name.startswith("tfquiver") or name in ("numpy", "rich", "tensorflow")
    }


@pytest.mark.slow
def test_no_command_imports_the_others() -> None:
    for_help, for_limit = imported(["--help"]), imported(["limit", "--help"])
    commands = {name for name in for_help if name.startswith("tfquiver.cli.")}
    assert commands == {f"tfquiver.cli.{one}" for one in ("help_layout", "main", "standard_streams")}
    assert not {"rich", "numpy"} & for_help
    assert {"tfquiver.cli.limit", "tfquiver.cli.calls"} < for_limit
    assert not {"tfquiver.cli.mount", "tfquiver.cli.policy", "tfquiver.demo.run", "numpy"} & for_limit


@pytest.mark.slow
def test_none_of_them_imports_tensorflow() -> None:
    code = "import sys\nfrom tfquiver.cli.main import parser\nparser()\nsys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
