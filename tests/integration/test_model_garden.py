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


@pytest.mark.parametrize("training", [True, False])
def test_its_reader_gives_every_record_once_an_epoch(tmp_path: Path, cache_dir: Path, training: bool) -> None:
    from official.core import config_definitions, input_reader

    paths = [str(path) for path in numbered.write(tmp_path / "data", FILES, RECORDS, 100)]
    config = config_definitions.DataConfig(
        input_path=",".join(paths), global_batch_size=BATCH, is_training=training, shuffle_buffer_size=100
    )

    def number(record: tf.Tensor) -> tf.Tensor:
        return tf.io.decode_raw(tf.strings.substr(record, 0, 8), tf.int64)[0]

    reader = input_reader.InputReader(config, decoder_fn=number)
    if training:
        records = tfquiver.dataset(paths, cache_dir=cache_dir).repeat()
    else:
        records = tfquiver.dataset(paths, cache_dir=cache_dir, order="files")
    batches = reader.read(dataset=records).take(2 * TOTAL // BATCH)
    seen = [int(one) for batch in batches for one in batch.numpy()]
    if training:
        # Its shuffle holds a hundred records back, so the third epoch has begun when the last of the second comes.
        assert len(seen) == 2 * TOTAL and set(seen) == set(range(TOTAL))
        assert max(Counter(seen).values()) <= 3
    else:
        assert seen == list(range(TOTAL))
