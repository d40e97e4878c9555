"""One thing is one, in everything that people read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_status_tables import told
from tfquiver.cli.status_tables_and_warnings import nodes_view, status_view
from tfquiver.sizes_durations_amounts.amounts import apart, many

ROOT = Path(__file__).resolve().parents[2]
# Of a number that is not known beforehand; constants, in capital letters, are, and those with commas are large; "1 of 7
# shards" is right.
BY_HAND = re.compile(
    r"(?<! of )(\{(?![^{}]*([A-Z]{3}|:,))[^{}]*\}|%d) "
    r"(shards|nodes|files|records|jobs|data sets|chunks|readers|entries|objects|problems|sessions|draws|epochs|tokens|"
    r"streams|weights|workers|dispatchers|questions|calls|connections)\b"
)


@pytest.mark.parametrize(
    ("count", "words", "said"),
    [
        (0, ("shard",), "0 shards"),
        (1, ("shard",), "1 shard"),
        (2, ("data set",), "2 data sets"),
        (1, ("batch", "batches"), "1 batch"),
        (3, ("batch", "batches"), "3 batches"),
        (1, ("node is", "nodes are"), "1 node is"),
    ],
)
def test_one_is_one(count: int, words: tuple[str, ...], said: str) -> None:
    assert many(count, *words) == said


def test_two_sizes_that_differ_are_never_called_the_same() -> None:
    assert apart(2_000_000_000, 1_500_000) == ["2.0 GB", "1.5 MB"]
    assert apart(10_000_001, 10_000_000) == ["10000001 bytes", "10000000 bytes"], "10.0 MB are more than 10.0 MB"
    assert apart(5, 5) == ["5 B", "5 B"]


@pytest.mark.parametrize("count", [1, 2])
def test_what_status_says_of_one_is_said_of_one(count: int) -> None:
    status = told("name")
    (node, _), (session,), (dataset,) = status["nodes"], status["sessions"], status["datasets"]
    node |= {"corrupt_entries": count, "peer_mismatches": count, "refused_by_disk": count, "refused_damaged": count}
    node |= {"refused_inserts": 3 * count, "used_bytes": 0}
    session["shortfall"] = count
    moving: dict[str, Any] = {"moving_shards": count, "moving_bytes": 5, "unmoved_shards": count}
    said = [*status_view.problems(status), *nodes_view.moves([dataset | moving])]
    about = [line for line in said if re.search(rf"\b{count} ", line)]
    assert len(about) >= 6
    for line in about:
        assert bool(re.search(rf"\b{count} (shard|entry|time|node)\b", line)) is (count == 1), line


def test_nothing_is_counted_by_hand() -> None:
    for path in (*(ROOT / "tfquiver").rglob("*.py"), *(ROOT / "service").rglob("*.py")):
        for number, line in enumerate(path.read_text().split("\n"), 1):
            found = BY_HAND.search(line)
            assert not found, f"{path}:{number}: {line.strip()}: tfquiver.sizes_durations_amounts.amounts.many"
