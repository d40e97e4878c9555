"""The Python side of the ops: data sets with their element specs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from tfquiver.ops.compiling_and_loading.loader import Library
    from tfquiver.tensorflow_client.parsing import Parsing


class _OfVariant(tf.data.Dataset):  # type: ignore[misc]  # TensorFlow has no types
    """What an op has made of `inputs`."""

    def __init__(self, variant: tf.Tensor, element_spec: Any, inputs: Sequence[tf.data.Dataset] = ()) -> None:
        self._datasets, self._element_spec = list(inputs), element_spec
        super().__init__(variant)

    def _inputs(self) -> list[Any]:
        return self._datasets

    @property
    def element_spec(self) -> Any:
        return self._element_spec


class Told(_OfVariant):
    """`dataset` again; `tells` is given each of its iterators where Python goes through it, and gives it back."""

    def __init__(self, dataset: tf.data.Dataset, tells: Callable[[Any], Any]) -> None:
        super().__init__(dataset._variant_tensor, dataset.element_spec, [dataset])
        self._tells = tells

    def __iter__(self) -> Any:
        return self._tells(super().__iter__())


class EndsAtOnce(_OfVariant):
    """`dataset` again, whose iterators go at once (ops/tf/quiver_ends_at_once_op). `told_as`: as of the op."""

    def __init__(self, dataset: tf.data.Dataset, library: Library, told_as: str = "") -> None:
        variant = library.ends_at_once_dataset(dataset._variant_tensor, **dataset._flat_structure, told_as=told_as)
        super().__init__(variant, dataset.element_spec, [dataset])


class QuiverSource(_OfVariant):
    """Wraps the op's variant. `batch_size` 0: scalars; else `[None]`, or `[batch_size]` with `drop_remainder`.

    `with_position`: pairs of positions and records. `parsing`: instead of records what they are parsed to.
    """

    def __init__(
        self,
        variant: tf.Tensor,
        batch_size: int,
        drop_remainder: bool,
        with_position: bool = False,
        parsing: Parsing | None = None,
    ) -> None:
        shape = [] if not batch_size else [batch_size if drop_remainder else None]
        records = tf.TensorSpec(shape, tf.string) if parsing is None else parsing.emitted(*shape)
        super().__init__(variant, (tf.TensorSpec(shape, tf.int64), records) if with_position else records)


class TaggedSource(_OfVariant):
    """Wraps the variant of a tagged source: records, or what they are parsed to, their tags, their session's id."""

    def __init__(self, variant: tf.Tensor, batched: bool, parsing: Parsing | None = None) -> None:
        shape = [None] if batched else []
        records = tf.TensorSpec(shape, tf.string) if parsing is None else parsing.emitted(None)
        tags = tf.TensorSpec(shape, tf.int64)
        super().__init__(variant, (records, tags, tf.TensorSpec([], tf.string)))


class OnceDataset(_OfVariant):
    """Wraps the variant of a QuiverOnceDataset over `inputs`."""

    def __init__(self, variant: tf.Tensor, inputs: Sequence[tf.data.Dataset], element_spec: Any) -> None:
        super().__init__(variant, element_spec, inputs)
