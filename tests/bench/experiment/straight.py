"""What jobs read without a cache: straight from the store, each for itself, or from their own copy on local disks."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.experiment.jobs import JobSpec, options
from tests.bench.experiment.remote import Data
from tfquiver.scanning import tfrecord
from tfquiver.stores import ObjectStore

if TYPE_CHECKING:
    import tensorflow as tf

_AHEAD = 4  # files that are fetched while one is read
_READ_S = 120.0


def from_store(store: ObjectStore, data: Data, spec: JobSpec) -> tf.data.Dataset:
    """Each epoch all files in another order, some fetched ahead: nothing that was read before is there."""
    import tensorflow as tf

    epochs = itertools.count()

    def batches() -> Iterator[list[bytes]]:
        files = list(data.digest.files)
        random.Random(f"{spec.name} {next(epochs)}").shuffle(files)
        with ThreadPoolExecutor(_AHEAD, f"straight {spec.name}") as pool:
            coming: deque[Future[bytes]] = deque()
            left, batch = iter(files), list[bytes]()
            with contextlib.suppress(StopIteration):
                while True:
                    while len(coming) < _AHEAD and (file := next(left, None)):
                        coming.append(pool.submit(store.read, file.uri, 0, file.size_bytes, file.generation, _READ_S))
                    if not coming:
                        break
                    for record in _records(coming.popleft().result()):
                        batch.append(record)
                        if len(batch) == spec.batch:
                            yield batch
                            batch = []
            if batch:
                yield batch

    return options(tf.data.Dataset.from_generator(batches, output_signature=tf.TensorSpec([None], tf.string)), 2)


def local_copy(store: ObjectStore, data: Data, directory: Path) -> list[str]:
    """The files' paths."""
    directory.mkdir(parents=True)
    paths = []
    for file in data.digest.files:
        path = directory / file.uri.rpartition("/")[2]
        path.write_bytes(store.read(file.uri, 0, file.size_bytes, file.generation, _READ_S))
        paths.append(str(path))
    return paths


def from_disk(paths: list[str], spec: JobSpec) -> tf.data.Dataset:
    """As people read TFRecords that are small enough to lie on each machine."""
    import tensorflow as tf

    files = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths))
    return options(files.interleave(tf.data.TFRecordDataset, 4).batch(spec.batch), 2)


def _records(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        yield data[at + tfrecord.HEADER_BYTES : at + tfrecord.HEADER_BYTES + length]
        at += tfrecord.HEADER_BYTES + length + tfrecord.FOOTER_BYTES
