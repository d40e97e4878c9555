"""Small models trained on two cores, with one epoch as one call: the order of the records is an argument."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tests.bench.learning.data import LETTERS, Task

if TYPE_CHECKING:
    import tensorflow as tf

_EVALUATED_AT_ONCE = 1000


class Classifier(Protocol):
    """Logits [B, classes] of inputs [B, ...], and what a training step changes."""

    @property
    def weights(self) -> list[tf.Variable]: ...
    def __call__(self, inputs: tf.Tensor) -> tf.Tensor: ...


class Digits:
    """Two convolutions and a dense layer."""

    def __init__(self, seed: int) -> None:
        import keras

        keras.utils.set_random_seed(seed)
        self._net = keras.Sequential(
            [
                keras.layers.Input([28, 28, 1]),
                keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
                keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
                keras.layers.Flatten(),
                keras.layers.Dense(10),
            ]
        )

    @property
    def weights(self) -> list[tf.Variable]:
        return [variable.value for variable in self._net.trainable_variables]

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        return self._net(tf.cast(inputs, tf.float32)[..., tf.newaxis] / 255)


class Words:
    """Letters through an embedding and a GRU, as far as the longest word of the batch reaches."""

    def __init__(self, seed: int, width: int = 48, classes: int = 3) -> None:
        import tensorflow as tf

        rng = np.random.default_rng(seed)

        def made(*shape: int) -> tf.Variable:
            return tf.Variable((rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32))

        self._width = width
        # Through the GRU's input weights at once: an embedding and a matrix behind it are one table.
        self._table = tf.Variable((0.5 * rng.normal(size=(len(LETTERS) + 1, 3 * width))).astype(np.float32))
        self._gates, self._candidate, self._out = made(width, 2 * width), made(width, width), made(width, classes)

    @property
    def weights(self) -> list[tf.Variable]:
        return [self._table, self._gates, self._candidate, self._out]

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        used = tf.cast(inputs, tf.int32)
        longest = tf.reduce_max(tf.math.count_nonzero(used, 1, dtype=tf.int32))
        letters = tf.transpose(used[:, :longest])
        there = tf.TensorArray(tf.float32, longest).unstack(tf.cast(letters > 0, tf.float32)[..., tf.newaxis])
        entering = tf.TensorArray(tf.float32, longest).unstack(tf.gather(self._table, letters))
        state = tf.zeros([tf.shape(used)[0], self._width])
        for at in tf.range(longest):
            gates_in, candidate_in = tf.split(entering.read(at), [2 * self._width, self._width], 1)
            keep, reset = tf.split(tf.sigmoid(gates_in + state @ self._gates), 2, 1)
            new = tf.tanh(candidate_in + (reset * state) @ self._candidate)
            state += there.read(at) * (1 - keep) * (new - state)
        return state @ self._out


def train(task: Task, model: Classifier, orders: Iterable[Any], batch: int, learning_rate: float) -> list[float]:
    """Adam over these epochs; the accuracy on the test set after each."""
    import tensorflow as tf

    inputs, labels = tf.constant(task.inputs), tf.constant(task.labels)
    weights = model.weights
    first = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
    second = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
    step = tf.Variable(0.0)

    @tf.function  # type: ignore[untyped-decorator]
    def epoch(order: tf.Tensor, rate: tf.Tensor) -> None:
        for start in tf.range(0, tf.shape(order)[0], batch):
            chosen = order[start : start + batch]
            with tf.GradientTape() as tape:
                logits = model(tf.gather(inputs, chosen))
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.gather(labels, chosen), logits)
                loss = tf.reduce_mean(losses)
            step.assign_add(1.0)
            scale = rate * tf.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            for weight, gradient, m, v in zip(weights, tape.gradient(loss, weights), first, second, strict=True):
                slope = tf.convert_to_tensor(gradient)
                m.assign(0.9 * m + 0.1 * slope)
                v.assign(0.999 * v + 0.001 * slope * slope)
                weight.assign_sub(scale * m / (tf.sqrt(v) + 1e-7))

    guess = tf.function(lambda some: tf.argmax(model(some), 1))
    accuracies = []
    for number, order in enumerate(orders):
        epoch(tf.constant(order), tf.constant(learning_rate * 0.5**number, tf.float32))
        right = [
            guess(tf.constant(task.test_inputs[at : at + _EVALUATED_AT_ONCE])).numpy()
            == task.test_labels[at : at + _EVALUATED_AT_ONCE]
            for at in range(0, len(task.test_labels), _EVALUATED_AT_ONCE)
        ]
        accuracies.append(float(np.mean(np.concatenate(right))))
    return accuracies
