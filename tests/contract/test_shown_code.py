"""What the pages show can be typed, also what is not run (tests/integration/test_pages.py runs what is marked).

Commands and their options exist; Python compiles, and names of tfquiver, and arguments of its functions, are there.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import tfquiver
from tfquiver.cli.main import parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "decisions")
]  # fmt: skip
SERVERS = ("coordinator", "node", "dispatcher", "worker")
OF_SHELLS = {"|", "||", "&", "&&", ">", ">>", "<", "2>", "2>&1", ";"}
ALSO = {"log_format", "log_dir"}  # of all servers, left out of the flag files


def fences(page: Path, language: str) -> list[str]:
    found = re.findall(rf"^ *```(?:{language})\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(one) for one in found]


def lines(page: Path) -> Iterator[list[str]]:
    """Words of the lines that begin with a program of tfquiver's."""
    for fence in fences(page, "sh"):
        for line in re.sub(r"\\\n\s*", " ", fence).splitlines():
            if found := re.match(r"\s*(?:[A-Z_]+=\S+ +)*(tfquiver(?:-[a-z]+)?)(?= |$)(.*)", line):
                words = shlex.split(found[1] + found[2], comments=True)
                yield words[: next((at for at, word in enumerate(words) if word in OF_SHELLS), len(words))]


def unknown(words: list[str]) -> str:
    """What of a command line is not there: values may be placeholders."""
    at = parser()
    for word in words:
        commands = [action for action in at._actions if isinstance(action, argparse._SubParsersAction)]
        if word.startswith("--"):
            if word.partition("=")[0] not in at._option_string_actions:
                return f"{at.prog} has no {word}"
        elif commands:
            if word not in commands[0].choices:
                return f"{at.prog} has no command {word}"
            at = commands[0].choices[word]
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_their_options_exist(page: Path) -> None:
    for program, *words in lines(page):
        if program == "tfquiver":
            assert not unknown(words), words
    for command in re.findall(r"`tfquiver ([a-z][^`\\]*)`", page.read_text()):
        # `dataset list|show NAME [--json]` and the like: alternatives, and what may be left out.
        plain = re.sub(r"[\[\]()]|\.\.\.", " ", command).split()
        first, *alternatives = (plain[1] if len(plain) > 1 else "").split("|")
        assert not unknown([plain[0].partition("|")[0], *([first] if first else []), *plain[2:]]), command
        for one in alternatives:
            assert one.isupper() or not unknown([plain[0], one]), command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_flags_of_servers_exist(page: Path) -> None:
    for program, *words in lines(page):
        server = program.removeprefix("tfquiver-")
        if server in SERVERS:
            known = re.findall(r"^#? ?--(\w+)", (ROOT / "configs" / f"{server}.flags").read_text(), re.MULTILINE)
            named = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
            assert named <= {*known, "flagfile", *ALSO}, words


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_and_arguments_of_shown_python_exist(page: Path) -> None:
    for code in fences(page, "python"):
        for one in ast.walk(ast.parse(code)):
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "tfquiver":
                assert one.attr in tfquiver.__all__ or find_spec(f"tfquiver.{one.attr}") is not None, one.attr
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
                owner, name = one.func.value, one.func.attr
                if isinstance(owner, ast.Name) and owner.id == "tfquiver" and name in tfquiver.__all__:
                    named = {keyword.arg for keyword in one.keywords if keyword.arg}
                    takes = inspect.signature(getattr(tfquiver, name)).parameters.values()
                    anything = any(one.kind is one.VAR_KEYWORD for one in takes)
                    assert anything or named <= {parameter.name for parameter in takes}, (name, named)


def test_what_is_not_there_is_found() -> None:
    assert unknown(["status", "--wach"]) == "tfquiver status has no --wach"
    assert unknown(["dataset", "lits"]) == "tfquiver dataset has no command lits"
    assert not unknown(["dataset", "list", "--json"])
    assert sum(1 for page in PAGES for _ in lines(page)) > 60
