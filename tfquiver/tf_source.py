"""The Python side of the QuiverDataset op: a source with its element spec."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class QuiverSource(tf.data.Dataset):  # type: ignore[misc]  # TensorFlow has no types
    """Wraps the op's variant. `batch_size` 0: scalars; else `[None]`, or `[batch_size]` with `drop_remainder`."""

    def __init__(self, variant: tf.Tensor, batch_size: int, drop_remainder: bool) -> None:
        shape = [] if not batch_size else [batch_size if drop_remainder else None]
        self._element_spec = tf.TensorSpec(shape, tf.string)
        super().__init__(variant)

    def _inputs(self) -> list[Any]:
        return []

    @property
    def element_spec(self) -> tf.TensorSpec:
        return self._element_spec
