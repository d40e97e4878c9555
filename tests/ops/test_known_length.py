"""A data set whose length tf.data does not know, told to Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfquiver import errors
from tfquiver.keras import known_length


def unknown() -> tf.data.Dataset:
    return tf.data.Dataset.range(7).filter(lambda _: True)


@pytest.mark.parametrize("made", [int, np.int64, lambda number: tf.constant(number, tf.int64)])
def test_it_is_a_number_of_any_kind(made: Callable[[int], Any]) -> None:
    assert unknown().cardinality().numpy() == tf.data.UNKNOWN_CARDINALITY
    assert known_length(unknown(), made(7)).cardinality().numpy() == 7


@pytest.mark.parametrize("batches", [0, "unknown", True, "7", 7.5])
def test_what_is_no_number_of_batches_is_named(batches: Any) -> None:
    batches = unknown().cardinality() if batches == "unknown" else batches
    with pytest.raises(errors.InvalidArgumentError, match="batches="):
        known_length(tf.data.Dataset.range(7), batches)
