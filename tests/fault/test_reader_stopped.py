"""A trainer that is stopped (SIGSTOP) keeps its connection to the node: the others of its session get what it held."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import numbered, told_reader, warm
from tests.support.started_nodes import StartNode, nodes_started

FILES, RECORDS, RECORD_BYTES = 3, 600, 300
TOTAL = FILES * RECORDS
SILENCE_S = 3
SHUFFLE_BYTES = READAHEAD_BYTES = 20_000
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)

# Says that it has had a batch, waits for a word, and reads the rest.
_READS = """
import json, sys
import tfquiver.reader
from tests.support import told_reader
given = json.loads(sys.argv[1])
data = tfquiver.reader.records(
    given["paths"], cache_dir=given["cache_dir"], batch_size=8, stream="shared",
    order=tfquiver.Shuffled(shuffle_bytes=given["shuffle_bytes"]),
    first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(5_000, 10_000, 20_000)),
    reading=tfquiver.Reading(readahead_bytes=given["readahead_bytes"]),
)
sys.stdin.readline()
with data.epoch() as epoch:
    found = told_reader.read(epoch)
print(json.dumps(found), flush=True)
"""


class Trainer:
    def __init__(self, paths: list[Path], cache_dir: Path, log: Path) -> None:
        given = {
            "cache_dir": str(cache_dir), "paths": [*map(str, paths)], "shuffle_bytes": SHUFFLE_BYTES,
            "readahead_bytes": READAHEAD_BYTES,
        }  # fmt: skip
        self.log = log
        with log.open("wb") as errors:
            self.process = warm.Popen(
                [sys.executable, "-c", _READS, json.dumps(given)], warm_kind="plain",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip

    def told(self) -> str:
        """What it answers."""
        return told_reader.told(self.process)

    def rest(self) -> list[int]:
        found: list[int] = json.loads(self.told())
        assert self.process.wait(30) == 0
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartNode]:
    with nodes_started(tmp_path) as starting:
        yield starting


@pytest.mark.timeout(60)
def test_others_read_what_a_stopped_one_held_and_it_learns_of_it(
    paths: list[Path], start: StartNode, tmp_path: Path
) -> None:
    """They waited for as long as it stood, at the end of the epoch."""
    node = start(f"--reader_silence_s={SILENCE_S}")
    one, other = (Trainer(paths, tmp_path / "cache", tmp_path / f"{name}.log") for name in ("one", "other"))
    try:
        assert [one.told(), other.told()] == ["in", "in"]
        one.process.send_signal(signal.SIGSTOP)
        read = other.rest()
        one.process.send_signal(signal.SIGCONT)
        late = one.rest()
    finally:
        for trainer in (one, other):
            trainer.process.kill()
            trainer.process.communicate()
    times = Counter(read + late)
    assert set(times) == set(range(TOTAL)), "each record came"
    assert max(Counter(read).values()) == max(Counter(late).values()) == 1
    twice = sum(count - 1 for count in times.values())
    assert twice * RECORD_BYTES <= SHUFFLE_BYTES + READAHEAD_BYTES + 2 * 20_000, "no more than it had in hand"
    assert f"has said nothing for {SILENCE_S} s" in node.log_tail()
    assert f"has said nothing for {SILENCE_S} s" in one.log.read_text()
