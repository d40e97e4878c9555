"""`--help` of every command in narrow terminals."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from tfquiver.cli import main

MODELS_OF_FILES = ("tfquiver sim",)  # in their descriptions stands what a file looks like, line by line


def every(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for commands in main._commands(parser):
        for one in commands.choices.values():
            yield from every(one)


@pytest.mark.parametrize("columns", [60, 80])
def test_no_line_is_wider(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    found = list(every(main.parser()))
    assert len(found) > 40
    for parser in found:
        told = parser.format_usage() if parser.prog in MODELS_OF_FILES else parser.format_help()
        wide = [line for line in told.splitlines() if len(line) > columns]
        assert not wide, parser.prog


@pytest.mark.parametrize("columns", [60, 80])
def test_usage_is_typed_so_and_takes_few_lines(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """What must be there comes first; a flag with its value stays on one line, and lines are filled."""
    monkeypatch.setenv("COLUMNS", str(columns))
    for parser in every(main.parser()):
        usage = parser.format_usage().rstrip("\n")
        assert usage.startswith(f"usage: {parser.prog} [-h]" if "COMMAND" in usage else f"usage: {parser.prog}")
        lines = usage.splitlines()
        assert len(lines) <= 8, parser.prog
        for line in lines:
            assert line.count("[") == line.count("]") and line.count("{") == line.count("}"), parser.prog
        for action in parser._actions:
            if action.required and not isinstance(action, argparse._SubParsersAction):
                word = (action.option_strings or [str(action.metavar or "{")])[0]
                assert 0 < usage.find(f" {word}", len(parser.prog)) < usage.find(" [-"), parser.prog


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        (["warm"], "usage: tfquiver warm URI [URI ...] [-h] [--name NAME]\n           [--format "),
        (["pack"], "usage: tfquiver pack SRC [SRC ...] -o WHERE [-h]\n           [--name NAME] "),
        (["dataset", "create"], "usage: tfquiver dataset create NAME [-h] [--digest FILE]\n           [--cred"),
        (["mount"], "usage: tfquiver mount SOURCE [SOURCE ...] DIR [-h]\n           [--cache_dir DIR] "),
        (["dataset"], "usage: tfquiver dataset [-h] COMMAND ...\n"),
    ],
)
def test_usage_at_60_columns(
    command: list[str], begins: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit):
        main.main([*command, "--help"])
    assert capsys.readouterr().out.startswith(begins)


def test_paragraphs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert "\n\nA cache for training data that many jobs share.\n\nEvery command" in main.parser().format_help()
