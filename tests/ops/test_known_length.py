"""A data set whose length tf.data does not know, told to Keras."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfquiver import errors
from tfquiver.keras import known_length


@pytest.mark.parametrize("batches", [7, np.int64(7), tf.constant(7, tf.int64)])
def test_it_is_a_number_of_any_kind(batches: int) -> None:
    data = tf.data.Dataset.range(7).filter(lambda _: True)
    assert data.cardinality().numpy() == tf.data.UNKNOWN_CARDINALITY
    assert known_length(data, batches).cardinality().numpy() == 7


@pytest.mark.parametrize("batches", [0, tf.data.Dataset.range(3).filter(lambda _: True).cardinality(), True, "7", 7.5])
def test_what_is_no_number_of_batches_is_named(batches: int) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="batches="):
        known_length(tf.data.Dataset.range(7), batches)
