"""How long what stands behind a data set is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf


def user_of(made: tf.data.Dataset) -> Any:
    """Who keeps it in use: the data set, or the function that it was made in, which outlives it."""
    import tensorflow as tf

    return made if isinstance(made._variant_tensor, tf.__internal__.EagerTensor) else made._variant_tensor.graph
