"""One Keras trial, as a process of its own. Writes one JSON line for each thing that happened.

It trains once for each line that it is told: `{"way": "cached", "coordinator": ..., "dispatcher": ...}`, or
`{"way": "direct"}`. It counts the records of every epoch by their ids, where the training loop takes them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfquiver.demo import digits, direct
from tfquiver.service.common_to_servers import serving

if TYPE_CHECKING:
    import tensorflow as tf

BATCH = 32
_SAY_S = 0.2


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def _through_service(arguments: argparse.Namespace, coordinator: str, dispatcher: str) -> tf.data.Dataset:
    """What a user writes: one source, a map that runs in the workers, TensorFlow's own distribute()."""
    import tensorflow as tf

    import tfquiver

    source = f"gs://{arguments.bucket}/{arguments.prefix}*"
    records = tfquiver.dataset(source, service=coordinator, batch_size=BATCH, job=arguments.name)
    service = tf.data.experimental.service
    return records.map(digits.parse).apply(service.distribute(service.ShardingPolicy.DYNAMIC, f"grpc://{dispatcher}"))


def _directly(arguments: argparse.Namespace) -> tf.data.Dataset:
    records = direct.dataset(arguments.bucket, arguments.prefix, arguments.scratch, arguments.seed)
    return records.batch(BATCH).map(digits.parse)


class _Tap:
    """Sees the ids of all records that pass."""

    def __init__(self) -> None:
        self._ids: list[int] = []

    def on(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        import tensorflow as tf

        def note(ids: tf.Tensor) -> tf.Tensor:
            self._ids.extend(ids.numpy().tolist())
            return ids

        def pass_on(ids: tf.Tensor, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            noted = tf.py_function(note, [ids], tf.int64)
            with tf.control_dependencies([noted]):
                return tf.identity(images), tf.identity(labels)

        return batches.map(pass_on)

    @property
    def seen(self) -> int:
        """Records since `take` was called."""
        return len(self._ids)

    def take(self) -> tuple[int, int]:
        """Records since the last call, and how many different ones."""
        seen, self._ids = self._ids, []
        return len(seen), len(set(seen))


def _model(learning_rate: float) -> Any:
    import keras

    model = keras.Sequential(
        [
            keras.layers.Input([digits.SIDE, digits.SIDE, 1]),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(learning_rate), loss, metrics=["accuracy"])
    return model


def _reporter(tap: _Tap, started: float) -> Any:
    import keras

    class Reporter(keras.callbacks.Callback):  # type: ignore[misc]
        said = started

        def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
            if time.monotonic() - self.said >= _SAY_S:
                self.said = time.monotonic()
                say("step", records=tap.seen)

        def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
            records, distinct = tap.take()
            accuracy = (logs or {}).get("accuracy")
            at_s = time.monotonic() - started
            say("epoch", epoch=epoch + 1, at_s=at_s, records=records, distinct=distinct, training_accuracy=accuracy)

    return Reporter()


def _warm_up(arguments: argparse.Namespace) -> None:
    """What TensorFlow does once in a process is none of what is measured."""
    import numpy as np

    images, labels = np.zeros((BATCH, digits.SIDE, digits.SIDE, 1), np.float32), np.zeros(BATCH, np.int64)
    _model(arguments.learning_rate).fit(images, labels, verbose=0)


def _train(arguments: argparse.Namespace, told: dict[str, str]) -> None:
    import keras
    import tensorflow as tf

    started = time.monotonic()
    keras.utils.set_random_seed(arguments.seed)
    model = _model(arguments.learning_rate)
    if told["way"] == "cached":
        batches = _through_service(arguments, told["coordinator"], told["dispatcher"])
    else:
        batches = _directly(arguments)
    tap = _Tap()
    fit_on = tap.on(batches).prefetch(8)
    model.fit(fit_on, epochs=arguments.epochs, verbose=0, callbacks=[_reporter(tap, started)])
    held_out = tf.data.TFRecordDataset(str(arguments.held_out)).batch(500).map(digits.parse)
    _, accuracy = model.evaluate(held_out.map(lambda _id, image, label: (image, label)), verbose=0)
    say("done", accuracy=accuracy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--held_out", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True, help="where direct reading puts what it downloads")
    parser.add_argument("--learning_rate", type=float, required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    serving.die_with_parent()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    arguments = parser.parse_args()
    _warm_up(arguments)
    say("ready")
    for line in sys.stdin:
        _train(arguments, json.loads(line))


if __name__ == "__main__":
    main()
