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
        if parser.prog not in MODELS_OF_FILES:
            _, _, told = parser.format_help().partition("\n\n")  # a flag with its choices is one word of the usage
            wide = [line for line in told.splitlines() if len(line) > columns]
            assert not wide, parser.prog


def test_paragraphs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert "\n\nA cache for training data that many jobs share.\n\nEvery command" in main.parser().format_help()
