"""Whoever of a stream is killed (who makes its batches, who follows, the node): the others get every batch once."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import numbered
from tests.support.daemons import daemons, end_daemons
from tests.support.stream_trainers import Trainer
from tfquiver.node_daemon_and_notes_in_directories import endpoints

FILES, RECORDS, RECORD_BYTES = 3, 600, 2000
TOTAL = FILES * RECORDS
SOME = 15  # batches, of 113
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)


@pytest.fixture
def trainer(paths: list[Path], tmp_path: Path) -> Iterator[Callable[..., Trainer]]:
    with contextlib.ExitStack() as ending:

        def made(**given: Any) -> Trainer:
            one = Trainer(paths, tmp_path / "cache", tmp_path / "calls", says=True, step_s=0.03, **given)
            ending.callback(one.end)
            return one

        yield made
    endpoints.close_all()
    end_daemons(tmp_path / "cache")


def until(trainer: Trainer, batches: int) -> None:
    while (line := trainer.line()) != str(batches):
        assert line, "it has ended"


def rest(trainer: Trainer) -> list[list[int]]:
    [found] = trainer.passes()
    batches: list[list[int]] = found["batches"]
    return batches


def whole(batches: list[list[int]]) -> bool:
    return sorted(number for batch in batches for number in batch) == list(range(TOTAL))


@pytest.mark.long
def test_a_killed_maker_and_a_killed_follower(trainer: Callable[..., Trainer]) -> None:
    makes = trainer()
    until(makes, 2)  # it is alone so far
    follows, other = trainer(), trainer()
    until(follows, SOME)
    until(other, 2)
    other.process.send_signal(signal.SIGKILL)
    makes.process.send_signal(signal.SIGKILL)
    assert whole(rest(follows))
    late = trainer()
    assert whole(rest(late))


@pytest.mark.long
def test_a_killed_node_takes_no_batch_along(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    both = [trainer(), trainer()]
    for one in both:
        until(one, SOME)
    [node] = daemons(tmp_path / "cache")
    node.kill()
    first, second = (rest(one) for one in both)
    assert whole(first) and first == second
    assert json.loads((tmp_path / "cache" / "node.json").read_text())["pid"] != node.pid
