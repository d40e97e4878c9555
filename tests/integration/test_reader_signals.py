"""Ctrl-C at any moment of `state()`: it is heard, and no state that is given is a damaged one."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import tfquiver
import tfquiver.reader
from tests.support import numbered
from tests.support.daemons import cache_dir_fixture
from tfquiver.reader import native

FOR_S = 4.0
paths = numbered.fixture(2, 4000, 300)
cache_dir = cache_dir_fixture()


@pytest.fixture
def interrupts() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.long
def test_a_state_that_is_given_is_whole(
    paths: list[Path], cache_dir: Path, interrupts: None, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tfquiver.reader.records(
        [str(path) for path in paths], cache_dir=cache_dir, batch_size=64,
        first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(300, 600, 1200)),  # many shards: a state takes longer
    )  # fmt: skip
    moments = random.Random(5)
    heard = whole = 0
    with data.epoch() as epoch:
        for _ in range(20):
            next(epoch)
        until = time.monotonic() + FOR_S
        while time.monotonic() < until:
            state = b""
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, moments.uniform(5e-5, 1e-3), 0.05)
                    while True:
                        state = epoch.state()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                heard += 1
            if state:
                native.touched(state, data.digest_id)  # raises what is wrong with it
                whole += 1
    assert heard > 100 and whole > 10
    assert "Exception ignored" not in capfd.readouterr().err
