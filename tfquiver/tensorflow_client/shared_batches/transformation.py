"""`tfquiver.one_stream`, a transformation for `Dataset.apply`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tfquiver import errors
from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.tensorflow_client.tf_errors import raised_as_both
from tfquiver.users_arguments_checked.checks import check_integer, check_name, size

if TYPE_CHECKING:
    import tensorflow as tf

_MOST = 1 << 40
_LEAST_WINDOW_BYTES = 64 << 10
_FETCHED_AHEAD = 2


@raised_as_both()
def one_stream(
    name: str,
    *,
    window_bytes: int | str = "256MiB",
    spill_bytes: int | str = "4GiB",
    first_epoch: int = 0,
    first_batch: int = 0,
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Trainers that give this name, on one machine and of one user, get the same batches, which are made once.

    `tfquiver.dataset(files, cache_dir=..., order=tfquiver.Deterministic(7)).map(decode).batch(32).apply(
    tfquiver.one_stream("ensemble-7"))`. One of the trainers runs the pipeline that stands before, for all; when it ends
    or is killed another one goes on. Each trainer gets every batch once and in order, however slow it is: the newest
    batches are kept in memory, then on the node's disk, and who falls behind these makes its batches again from
    the cache, where it was. Nobody waits for who is slower.

    The pipeline must make the same batches again: sources with `order=Deterministic(seed)` or "files", random maps with
    stateless seeds. That is checked, batch by batch, whenever one is made twice. Each iterator is the next epoch.

    Args:
      name: of the stream.
      window_bytes: of batches in memory, for all its trainers together; at least four batches. Of the first trainer's.
      spill_bytes: of batches on the node's disk, within its quota, at most a sixteenth of it, and
        256 times `window_bytes`; 0: none.
      first_epoch: where to begin, for a trainer that goes on where it stopped,
      first_batch: and with which batch of it.

    Raises InvalidArgumentError: an argument, or a pipeline, that cannot be right. Iterators raise errors that name
    stream, job, epoch and batch: of the code of what the pipeline raises; UnavailableError: the node stays away;
    InvalidArgumentError: the pipeline makes other batches than it did. Behind further transformations, and in `fit`,
    TensorFlow makes UnknownError of them, whose first line says the same.
    """
    check_name("name", name)
    if name is None:
        raise errors.InvalidArgumentError("name=None: a stream needs one")
    window, spill = size("window_bytes", window_bytes, _LEAST_WINDOW_BYTES), size("spill_bytes", spill_bytes, 0)
    check_integer("first_epoch", first_epoch, 0, _MOST)
    check_integer("first_batch", first_batch, 0, _MOST)

    @raised_as_both()
    def apply(dataset: tf.data.Dataset) -> tf.data.Dataset:
        import tensorflow as tf

        from tfquiver.tensorflow_client.shared_batches import packing
        from tfquiver.tensorflow_client.shared_batches.following import Following
        from tfquiver.tensorflow_client.shared_batches.pipeline import Pipeline
        from tfquiver.tensorflow_client.shared_batches.shared import Shared
        from tfquiver.tensorflow_client.shared_batches.troubles import Troubles
        from tfquiver.tensorflow_client.tf_source import Told

        if not isinstance(dataset, tf.data.Dataset):
            raise errors.InvalidArgumentError(f"one_stream: is applied to a tf.data.Dataset, not to {dataset!r}")
        length = int(dataset.cardinality())
        if 0 <= length < first_batch:
            raise errors.InvalidArgumentError(
                f"first_batch={first_batch}: an epoch has {many(length, 'batch', 'batches')}"
            )
        shared = Shared(Pipeline(dataset), name, window, spill)
        troubles = Troubles(name, shared.pipeline.job)
        passes = itertools.count(first_epoch)

        def batches() -> Iterator[list[bytes]]:
            pass_ = next(passes)
            following = Following(shared, pass_, first_batch if pass_ == first_epoch else 0)
            try:
                while (batch := following.next()) is not None:
                    yield batch
            except Exception as error:  # noqa: BLE001 - whatever a user's pipeline raises
                raise troubles.of(error, pass_, following.index) from None
            finally:
                following.close()

        leaves = len(tf.nest.flatten(dataset.element_spec, expand_composites=True))
        packed = tf.data.Dataset.from_generator(batches, output_signature=tf.TensorSpec([leaves], tf.string))
        whole = packing.unpacked_dataset(packed, dataset.element_spec)
        if length >= 0 and first_batch == 0:
            whole = whole.apply(tf.data.experimental.assert_cardinality(length))
        made = Told(whole.prefetch(_FETCHED_AHEAD), troubles.told_by)
        made._tfquiver_stream = shared  # the way to the node stays open as long as this is used
        return made

    apply.autograph_info__ = {}  # type: ignore[attr-defined]  # see tfquiver.dataset
    return apply


one_stream.autograph_info__ = {}  # type: ignore[attr-defined]
