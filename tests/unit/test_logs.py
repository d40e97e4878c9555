"""What a line of the log is about, and lines that come rarely: fields, their bounds, how many were left out."""

from __future__ import annotations

import asyncio
import io
import json
import logging as standard
from collections.abc import Iterator
from typing import Any

import pytest
from absl import logging

from tfquiver.log_files_and_lines import rare_lines
from tfquiver.log_files_and_lines.log_lines import JsonFormatter, PlainFormatter
from tfquiver.log_files_and_lines.logs import about, telling
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds

ALWAYS = {"time", "severity", "server", "pid", "where", "message"}


class Lines:
    def __init__(self, formatter: standard.Formatter) -> None:
        self._stream = io.StringIO()
        self.handler = standard.StreamHandler(self._stream)
        self.handler.setFormatter(formatter)

    def take(self) -> list[str]:
        lines = self._stream.getvalue().splitlines()
        self._stream.seek(0)
        self._stream.truncate()
        return lines

    def fields(self) -> list[dict[str, Any]]:
        """What lines say besides what all of them have."""
        lines = [json.loads(line) for line in self.take()]
        return [{name: value for name, value in line.items() if name not in ALWAYS} for line in lines]


def written(formatter: standard.Formatter) -> Iterator[Lines]:
    lines, logger = Lines(formatter), standard.getLogger("absl")
    logger.addHandler(lines.handler)
    yield lines
    logger.removeHandler(lines.handler)


@pytest.fixture
def lines() -> Iterator[Lines]:
    yield from written(JsonFormatter("tfquiver-node"))


@pytest.fixture
def text() -> Iterator[Lines]:
    yield from written(PlainFormatter())


def test_a_line_says_what_it_is_about(lines: Lines) -> None:
    logging.warning("words", extra=about(job="j", dataset="d", digest=b"\x01\x02", shard=0, hash=b"\xff", node="n"))
    logging.warning("words")
    assert lines.fields() == [
        {"job": "j", "dataset": "d", "digest": "0102", "shard": 0, "hash": "ff", "node": "n"},
        {},
    ]


def test_so_do_all_lines_of_what_is_done_for_it_also_in_tasks_and_threads(lines: Lines) -> None:
    async def deep() -> None:
        await asyncio.to_thread(logging.warning, "in a thread", extra=about(shard=2))
        logging.warning("in a task")

    async def both() -> None:
        with telling(job="j", shard=1):
            task = asyncio.create_task(deep())
        with telling(job="other"), telling(dataset="d", alone=True):
            logging.warning("for several")
        await task

    asyncio.run(both())
    assert lines.fields() == [{"dataset": "d"}, {"job": "j", "shard": 2}, {"job": "j", "shard": 1}]


def test_names_are_escaped_and_short(lines: Lines) -> None:
    logging.warning("words", extra=about(job="a\x1b[2K\nb" + "c" * 10_000, dataset='d"'))
    [line] = lines.take()
    assert line.isprintable() and len(line) < 600
    said = json.loads(line)
    assert said["job"].startswith(r"a\x1b[2K\nbcc") and said["dataset"] == 'd"'


def test_fields_change_no_words_of_the_text_format(text: Lines) -> None:
    logging.warning("words of %s", "somebody", extra=about(job="j"))
    [line] = text.take()
    assert line.endswith("] words of somebody")


def test_a_line_that_comes_rarely_says_how_many_were_left_out(
    lines: Lines, text: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(rare_lines.time, "monotonic", lambda: now_s)

    def say(number: int) -> None:
        every_n_seconds(logging.WARNING, "shard %d", 60, number, extra=about(shard=number))

    for number in range(5):
        say(number)
    now_s += 61
    say(5)
    now_s += 61
    say(6)
    assert lines.fields() == [{"shard": 0}, {"shard": 5, "suppressed": 4}, {"shard": 6}]
    said = [line.split("] ", 1)[1] for line in text.take()]
    assert said == ["shard 0", "shard 5 (4 more of these were left out)", "shard 6"]


def test_places_in_the_code_do_not_silence_one_another_and_are_named(lines: Lines) -> None:
    every_n_seconds(logging.WARNING, "one", 60)
    every_n_seconds(logging.WARNING, "other", 60)
    said = [json.loads(line) for line in lines.take()]
    assert [line["message"] for line in said] == ["one", "other"]
    assert all(line["where"].startswith("test_logs.py:") for line in said)
