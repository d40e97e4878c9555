"""A trainer that is killed goes on from its checkpoint with exactly the records that it had not seen."""

from __future__ import annotations

import functools
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered, warm
from tests.support.cluster import wait_until
from tests.support.daemons import end_daemons
from tfquiver import CutPolicy
from tfquiver.node_daemon_and_notes_in_directories import daemon, endpoints

FILES, RECORDS_A_FILE, RECORD_BYTES = 4, 1500, 1000
TOTAL = FILES * RECORDS_A_FILE
BATCH, SAVE_EVERY = 25, 10
CUT = CutPolicy(10_000, 20_000, 40_000)
MAX_STATE_BYTES = 8 << 10


class _NoOp:
    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None: ...


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    cache_dir = tmp_path_factory.mktemp("module") / "cache"
    endpoints.acquire("module", functools.partial(daemon.find_or_start, cache_dir, 1 << 30), _NoOp())
    yield cache_dir
    endpoints.close_all()
    end_daemons(cache_dir)


_TRAINER = """
import sys, time
from pathlib import Path
import tensorflow as tf
from tests.fault.test_trainer_killed import SAVE_EVERY, data_set
from tests.support import numbered

out = Path(sys.argv[1])
iterator = iter(data_set(sys.argv[2:], out / "cache-link", symbolic=sys.stdin.readline().strip() == "symbolic"))
checkpoint = tf.train.Checkpoint(iterator=iterator)
with (out / "seen").open("wb", buffering=0) as seen:
    for step, batch in enumerate(iterator, start=1):
        seen.write(numbered.numbers(batch.numpy()).tobytes())
        if step % SAVE_EVERY == 0:
            checkpoint.write(str(out / f"step-{step}"))
            (out / "saving").write_text(str(step))
            (out / "saving").replace(out / "saved")
        time.sleep(0.005)
"""


def data_set(paths: list[str] | list[Path], cache_dir: Path, symbolic: bool) -> tf.data.Dataset:
    read = tfquiver.dataset(
        [str(path) for path in paths],
        cache_dir=cache_dir,
        first_use=tfquiver.FirstUse(cut=CUT),
        order=tfquiver.Shuffled(shuffle_bytes=300_000),
        reading=tfquiver.Reading(readahead_bytes=100_000),
    )
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = symbolic
    return read.map(lambda record: record, num_parallel_calls=2).batch(BATCH).prefetch(2).with_options(options)


@pytest.mark.parametrize("kind", ["plain", "symbolic"])
def test_resume_after_a_kill_is_the_exact_complement(cache_dir: Path, tmp_path: Path, kind: str, seed: int) -> None:
    paths = numbered.write(tmp_path / "data", FILES, RECORDS_A_FILE, RECORD_BYTES)
    (tmp_path / "cache-link").symlink_to(cache_dir)
    command = [sys.executable, "-c", _TRAINER, str(tmp_path), *map(str, paths)]
    kill_at = random.Random(seed).randrange(SAVE_EVERY + 1, TOTAL // BATCH - SAVE_EVERY)
    trainer = warm.Popen(command, warm_kind="tensorflow", stdin=subprocess.PIPE, text=True)
    try:
        assert trainer.stdin is not None
        trainer.stdin.write(kind + "\n")
        trainer.stdin.flush()
        seen_file = tmp_path / "seen"
        wait_until(
            lambda: (
                (seen_file.exists() and seen_file.stat().st_size >= kill_at * BATCH * 8) or trainer.poll() is not None
            ),
            f"step {kill_at}",
            60,
        )
        assert trainer.poll() is None
    finally:
        trainer.kill()
        trainer.wait()
        trainer.stdin.close()
    saved = int((tmp_path / "saved").read_text())
    before = np.frombuffer(seen_file.read_bytes(), np.int64)[: saved * BATCH]

    iterator = iter(data_set(paths, tmp_path / "cache-link", symbolic=kind == "symbolic"))
    tf.train.Checkpoint(iterator=iterator).read(str(tmp_path / f"step-{saved}")).assert_consumed()
    after = numbered.read(batch.numpy() for batch in iterator)
    print(f"{kind}: killed after step {kill_at}, resumed from step {saved}: {len(before)} + {len(after)} records")
    numbered.assert_each_once(np.concatenate([before, after]), TOTAL)
    # The next epoch is a whole one.
    numbered.assert_each_once(numbered.read(data_set(paths, tmp_path / "cache-link", symbolic=False)), TOTAL)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "emitted"), [("plain", 0), ("symbolic", 1), ("plain", 3333), ("symbolic", 3333), ("plain", 9999)]
)
def test_state_is_small_at_ten_thousand_shards(cache_dir: Path, tmp_path: Path, kind: str, emitted: int) -> None:
    paths = numbered.write(tmp_path / "data", 10, 1000, 64)
    read = tfquiver.dataset(
        paths,
        cache_dir=cache_dir,
        first_use=tfquiver.FirstUse(cut=CutPolicy(1, 1, 1)),
        order=tfquiver.Shuffled(shuffle_bytes=50_000),
    )
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = kind == "symbolic"
    # What TensorFlow has fetched ahead it writes down by itself, record by record; on a slow machine that is more.
    options.experimental_optimization.inject_prefetch = False
    read = read.with_options(options)
    iterator = iter(read)
    before = numbered.read(next(iterator).numpy() for _ in range(emitted))
    where = Path(tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved" / "state")))
    size = sum(path.stat().st_size for path in where.parent.iterdir())
    print(f"{kind}: {size} bytes after {emitted} of 10000 shards")
    assert size < MAX_STATE_BYTES
    again = iter(read)
    tf.train.Checkpoint(iterator=again).read(str(where))
    after = numbered.read(record.numpy() for record in again)
    numbered.assert_each_once(np.concatenate([before, after]), 10_000)
