"""What people are told of a data set that has a name, and of what they wait for."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tfquiver.cli.datasets import states, waiting
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (pb.NamedDataset(state=pb.NamedDataset.STATE_SCANNING, done_bytes=439, total_bytes=1000), "Scanning 43 %"),
        (pb.NamedDataset(state=pb.NamedDataset.STATE_SCANNING), "Scanning"),
        (pb.NamedDataset(state=pb.NamedDataset.STATE_WARMING, done_bytes=1, total_bytes=8), "Warming 12 %"),
        (pb.NamedDataset(state=pb.NamedDataset.STATE_READY, done_bytes=9, total_bytes=9), "Ready"),
        (pb.NamedDataset(state=pb.NamedDataset.STATE_STALE), "Stale"),
        (pb.NamedDataset(state=pb.NamedDataset.STATE_DELETING), "Deleting"),
    ],
)
def test_a_state_in_words(named: pb.NamedDataset, said: str) -> None:
    assert states.phrase(named) == said


def test_a_bar_has_what_was_done_the_rate_and_the_time_that_is_left() -> None:
    now_s = 100.0
    bar = waiting.bar()
    bar.get_time = lambda: now_s
    task = bar.add_task("warming", total=100 << 20)
    for _ in range(4):
        now_s += 5.0
        bar.advance(task, 10 << 20)
    out = io.StringIO()
    Console(file=out, width=120).print(bar.get_renderable())
    shown = out.getvalue()
    assert "warming" in shown
    assert "40.0/100.0 MiB" in shown
    assert "2.1 MB/s" in shown
    assert "0:00:30" in shown
