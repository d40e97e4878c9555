"""Model Garden's input reader over tfquiver, with the change that docs/guide/migrate.md names: every record counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered
from tfquiver.cli import main as cli

pytest.importorskip("official", reason="Model Garden is not here: pip install tf-models-official")

FILES, RECORDS, BATCH = 4, 250, 50
TOTAL = FILES * RECORDS


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    assert cli.main(["stop", str(tmp_path / "cache"), "--force"]) == 0


def numbers(paths: list[str], records: tf.data.Dataset, batches: int, **config: object) -> list[list[int]]:
    """Of each batch, through the real reader, as one of two replicas has them."""
    from official.core import config_definitions, input_reader

    def number(record: tf.Tensor) -> tf.Tensor:
        return tf.io.decode_raw(tf.strings.substr(record, 0, 8), tf.int64)[0]

    wanted = config_definitions.DataConfig(
        input_path=",".join(paths), global_batch_size=2 * BATCH, shuffle_buffer_size=100, **config
    )
    context = tf.distribute.InputContext(num_input_pipelines=1, input_pipeline_id=0, num_replicas_in_sync=2)
    reader = input_reader.InputReader(wanted, decoder_fn=number)
    return [batch.numpy().tolist() for batch in reader.read(input_context=context, dataset=records).take(batches)]


def test_its_reader_gives_every_record_once_an_epoch(tmp_path: Path, cache_dir: Path) -> None:
    paths = [str(path) for path in numbered.write(tmp_path / "data", FILES, RECORDS, 100)]
    records = tfquiver.dataset(paths, cache_dir=cache_dir).repeat()
    batches = numbers(paths, records, 2 * TOTAL // BATCH, is_training=True)
    assert all(len(batch) == BATCH for batch in batches)
    seen = [one for batch in batches for one in batch]
    # Its shuffle holds a hundred records back, so the third epoch has begun when the last of the second comes.
    assert len(seen) == 2 * TOTAL and set(seen) == set(range(TOTAL))
    assert max(Counter(seen).values()) <= 3


def test_its_reader_repeats_what_it_caches_itself(tmp_path: Path, cache_dir: Path) -> None:
    paths = [str(path) for path in numbered.write(tmp_path / "data", FILES, RECORDS, 100)]
    records = tfquiver.dataset(paths, cache_dir=cache_dir)
    batches = numbers(paths, records, 3 * TOTAL // BATCH, is_training=True, cache=True)
    assert {one for batch in batches for one in batch} == set(range(TOTAL))


def test_its_reader_validates_in_the_order_of_the_files(tmp_path: Path, cache_dir: Path) -> None:
    paths = [str(path) for path in numbered.write(tmp_path / "data", FILES, RECORDS, 100)]
    records = tfquiver.dataset(paths, cache_dir=cache_dir, order="files")
    batches = numbers(paths, records, 2 * TOTAL // BATCH, is_training=False)
    assert [one for batch in batches for one in batch] == list(range(TOTAL))
