from __future__ import annotations

import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.log_files_and_lines.log_lines import JsonFormatter, PlainFormatter
from tfquiver.plain_text import of_error, plain


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("node-a", "node-a"),
        ("größer als 東京", "größer als 東京"),
        ("a\nERROR forged", r"a\nERROR forged"),
        ("\x1b[2Jx", r"\x1b[2Jx"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("a\u2028b", r"a\u2028b"),
        (ValueError("x\r"), r"x\r"),
    ],
)
def test_what_could_steer_is_escaped_and_the_rest_is_left(text: object, harmless: str) -> None:
    assert plain(text) == harmless


@given(st.text(), st.integers(0, 50))
def test_it_is_one_printable_line_of_bounded_length(text: str, most: int) -> None:
    assert plain(text, most).isprintable()
    assert len(plain(text, most)) <= 10 * most + 3


def test_notes_of_an_error_are_lines_of_which_none_passes_for_ours() -> None:
    error = ValueError("of 'a\nb', the end of its log:")
    assert of_error(error) == r"of 'a\nb', the end of its log:"
    error.add_note("\ntfquiver: all is well\n\x1b[2Jlast\rwords\n")
    assert of_error(error) == (
        "of 'a\\nb', the end of its log:\n    tfquiver: all is well\n    \\x1b[2Jlast\n    words"
    )
    assert of_error(ValueError("")) == ""


def test_a_name_cannot_forge_a_line_of_the_log() -> None:
    try:
        raise ValueError("bad\nERROR forged")
    except ValueError:
        record = logging.LogRecord("x", logging.WARNING, "f", 1, "from %s", ("a\x1b[2K\nb",), sys.exc_info())
    lines = PlainFormatter().format(record).split("\n")
    assert lines[0].endswith(r"from a\x1b[2K\nb")
    assert "Traceback" in lines[1]
    assert "".join(lines).isprintable()


def test_a_line_of_the_log_in_json_is_one_line_with_its_fields() -> None:
    try:
        raise ValueError("bad\nERROR forged")
    except ValueError:
        record = logging.LogRecord("x", logging.WARNING, "f.py", 7, "from %s", ("a\x1b[2K\nb",), sys.exc_info())
    record.created, record.msecs = 1_700_000_000.25, 250.0
    text = JsonFormatter("tfquiver-node").format(record)
    assert text.isprintable(), "one line, and nothing that steers a terminal"
    line = json.loads(text)
    assert "ValueError: bad" in line.pop("traceback")
    assert line == {
        "time": "2023-11-14T22:13:20.250Z", "severity": "WARNING", "server": "tfquiver-node", "pid": record.process,
        "where": "f.py:7", "message": r"from a\x1b[2K\nb",
    }  # fmt: skip
