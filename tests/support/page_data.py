"""What the pages' code reads: small pictures with labels, as files here or as objects of a bucket.

A picture says its label by how bright it is, so that models in the pages learn within seconds. TensorFlow writes them;
a page's process that has not imported it (for PyTorch: releases of both crash each other in one process) has its
objects made by another one.
"""

from __future__ import annotations

import atexit
import functools
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.support.s3_server import s3_server
from tfquiver.testing.emulated_store import EmulatedStore

SIDE, LABELS = 8, 10


def files(prefix: str, count: int = 4, records: int = 500) -> list[Path]:
    """Writes `prefix-00000-of-00004` and so on, `records` pictures each: features `id`, `image` (PNG), `label`."""
    import tensorflow as tf

    made = _names(prefix, count)
    made[0].parent.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(made):
        with tf.io.TFRecordWriter(str(path)) as writer:
            for example in _examples(range(number * records, (number + 1) * records)):
                writer.write(example)
    return made


def bucket(name: str, prefix: str, count: int = 4, records: int = 500) -> None:
    """The same as objects of a Google Cloud Storage that this process finds in its environment until it ends."""
    store = EmulatedStore.start()
    atexit.register(store.close)
    store.make_bucket(name)
    for path in _here_or_apart(prefix, count, records):
        store.put(name, path.name, path.read_bytes())
        path.unlink()
    os.environ["STORAGE_EMULATOR_HOST"] = store.url


def s3(name: str, prefix: str, count: int = 4, records: int = 500) -> None:
    """The same as objects of an S3 that wants to know who asks; this process's environment has where, and the key."""
    held = ExitStack()
    atexit.register(held.close)
    server = held.enter_context(s3_server())
    for path in _here_or_apart(prefix, count, records):
        server.put(f"{name}/{path.name}", path.read_bytes())
        path.unlink()
    os.environ.update(server.environment())


def _here_or_apart(prefix: str, count: int, records: int) -> list[Path]:
    if "tensorflow" in sys.modules:
        return files(prefix, count, records)
    command = [sys.executable, "-m", "tests.support.page_data", prefix, str(count), str(records)]
    subprocess.run(command, check=True)
    return _names(prefix, count)


def _names(prefix: str, count: int) -> list[Path]:
    return [Path(f"{prefix}-{number:05}-of-{count:05}") for number in range(count)]


def _examples(numbers: range) -> Iterator[bytes]:
    import tensorflow as tf

    noise = random.Random(numbers.start)
    images = _images()
    for number in numbers:
        label = noise.randrange(LABELS)
        features = {
            "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[noise.choice(images[label])])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        yield tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@functools.cache
def _images() -> list[list[bytes]]:
    """A few for each label: to encode one takes a millisecond."""
    noise = random.Random(0)
    return [[_png(label, noise) for _ in range(5)] for label in range(LABELS)]


def _png(label: int, noise: random.Random) -> bytes:
    import tensorflow as tf

    pixels = bytes(label * 25 + noise.randrange(20) for _ in range(SIDE * SIDE))
    made: bytes = tf.io.encode_png(tf.reshape(tf.io.decode_raw(pixels, tf.uint8), (SIDE, SIDE, 1))).numpy()
    return made


if __name__ == "__main__":
    files(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
