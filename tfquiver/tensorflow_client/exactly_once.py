"""Every record exactly once an epoch, whatever happens to the tf.data service workers that read it.

The workers' source gives every record a tag. What they deliver goes through the QuiverOnceDataset op in the trainer,
which drops what came before and, when the workers are done or gone, has the trainer read what is missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.users_arguments_checked.dataset_options import SourceOptions

if TYPE_CHECKING:
    import tensorflow as tf

    from tfquiver.ops.compiling_and_loading.loader import Library
    from tfquiver.tensorflow_client.parsing import Parsing

Transform = Callable[[Any], Any]
_ORDERS = {  # of SourceOptions
    "deterministic": "Deterministic()",
    "homogeneous": "Shuffled(homogeneous=True)",
    "order_log": "Shuffled(log_dir=)",
    "replay": "Replay()",
    "sampling": "a sampling scheme",
}
_READ_HERE = {  # of SourceOptions
    "files": 'order="files" is the order of one reader: workers of tf.data service would mix theirs',
    "joins": "stream= is for those who read in their own process",
}


@dataclass(frozen=True, slots=True)
class DeliveryStats:
    """What this process's `exactly_once` iterators have done since it began. All but `epochs` are records."""

    epochs: int  # delivered whole
    delivered: int
    duplicates: int  # came again, and were dropped
    mopped_up: int  # of those delivered: read by this process, because no worker delivered them
    takeovers: int  # epochs whose workers had given nothing for `takeover_timeout_s`, or failed


def delivery_stats() -> DeliveryStats:
    """Counters of this process's `exactly_once` data sets. Raises ImportError when there is no op library."""
    from tfquiver.ops.compiling_and_loading import loader

    return DeliveryStats(*loader.load().delivery_stats())


@dataclass(frozen=True, slots=True)
class Origin:
    """How `tfquiver.dataset` made a data set, kept with it so that it can be made again with tags."""

    registered: types_pb2.Dataset
    options: SourceOptions
    endpoint: str
    made: Any  # the data set itself: as long as it lives, the way to the node is open
    resumes: bool = False
    session_key: str = ""
    parsing: Parsing | None = None
    decode: Transform | None = None  # what makes elements of the records, where they are not the elements

    @staticmethod
    def of(dataset: tf.data.Dataset) -> Origin:
        """Raises InvalidArgumentError when `dataset` is anything but what `tfquiver.dataset` returned."""
        origin = getattr(dataset, "_tfquiver_origin", None)
        if isinstance(origin, Origin):
            return origin
        raise errors.InvalidArgumentError(
            'guarantee="exactly_once" is applied to what tfquiver.dataset(...) returns, with nothing in between: give '
            "what the workers are to do with the records as transform="
        )


def deliver(
    dataset: tf.data.Dataset,
    distribute: Callable[[tf.data.Dataset], tf.data.Dataset],
    transform: Transform | None,
    batch_size: int | None,
    takeover_timeout_s: float | None,
) -> tf.data.Dataset:
    """`dataset` (of `tfquiver.dataset`) through `transform` in the workers of `distribute`, each record once.

    Raises InvalidArgumentError, naming what cannot be kept.
    """
    import tensorflow as tf

    from tfquiver.ops.compiling_and_loading import loader

    origin = Origin.of(dataset)
    if not origin.endpoint:
        raise errors.InvalidArgumentError(
            'guarantee="exactly_once" needs the node on this machine, which learns what was delivered and gives what '
            "is missing: add cache_dir= to tfquiver.dataset(...)"
        )
    if origin.resumes:
        raise errors.InvalidArgumentError(
            'resume=True and guarantee="exactly_once" do not go together: save the iterator with tf.train.Checkpoint, '
            "which goes on with exactly the records that have not been delivered"
        )
    if origin.parsing is not None and not origin.parsing.fixed:
        raise errors.InvalidArgumentError(
            'parse: guarantee="exactly_once" takes batches apart record by record: only FixedLenFeature. Leave parse= '
            "away, and parse in what is given as transform="
        )
    for name, order in _ORDERS.items():
        if getattr(origin.options, name):
            raise errors.InvalidArgumentError(
                f'order={order}: guarantee="exactly_once" says which records come, not in which order: what is read '
                "again comes later, and fills up batches"
            )
    if batch_size is not None and origin.options.batch_size:
        raise errors.InvalidArgumentError("batch_size= is given to tfquiver.dataset(...) already")
    library = loader.load()
    prepared = _tagged(library, origin)
    if (changed := _changed_by(origin.decode, transform)) is not None:
        prepared = prepared.map(changed, num_parallel_calls=tf.data.AUTOTUNE)
    rows = origin.options.batch_size
    if batch_size is not None:
        prepared, rows = prepared.batch(batch_size, num_parallel_calls=tf.data.AUTOTUNE), batch_size
    spec = _checked(prepared.element_spec[0], bool(rows))
    once = _once(library, origin, distribute(prepared), prepared, spec, takeover_timeout_s)
    drop = origin.options.drop_remainder
    elements = origin.registered.records
    if rows:
        once = once.rebatch(rows, drop_remainder=drop)
        elements = elements // rows if drop else -(-elements // rows)
    return once.apply(tf.data.experimental.assert_cardinality(elements))


def _changed_by(decode: Transform | None, transform: Transform | None) -> Callable[[Any, Any, Any], Any] | None:
    """What is done with tagged records; None: nothing."""
    if decode is None and transform is None:
        return None

    def changed(records: Any, tags: Any, session: Any) -> Any:
        element = records
        if decode is not None:
            element = decode(records)
        if transform is not None:  # as `map` calls it
            element = transform(*element) if type(element) is tuple else transform(element)
        return element, tags, session

    return changed


def check_not_read_here(dataset: tf.data.Dataset) -> None:
    """Raises InvalidArgumentError where something that it is made of is for the process that made it."""
    found = [dataset]
    while found:
        one = found.pop()
        if hasattr(one, "_tfquiver_stream"):
            raise errors.InvalidArgumentError(
                "one_stream: a stream that trainers share cannot also be spread over workers of tf.data service, each "
                "of which would take batches from it. Leave distribute() away: one of the trainers makes the batches "
                "for all. Or leave one_stream() away: workers make them for each trainer, in an order of its own"
            )
        origin = getattr(one, "_tfquiver_origin", None)
        for option, why in _READ_HERE.items():
            if isinstance(origin, Origin) and getattr(origin.options, option):
                raise errors.InvalidArgumentError(
                    f"{why}. Leave distribute() away: read in this process, with "
                    "map(parse, num_parallel_calls=tf.data.AUTOTUNE)"
                )
        found += one._inputs()


def _tagged(library: Library, origin: Origin) -> tf.data.Dataset:
    from tfquiver.tensorflow_client.tf_source import TaggedSource

    # Every record counts, those of a last, shorter batch too.
    options = replace(origin.options, drop_remainder=False).for_op(origin.endpoint)
    variant = library.quiver_dataset(
        digest_id=origin.registered.digest_id,
        session_key=f"{origin.session_key}:{uuid.uuid4().hex}",  # the claim of what stands before the colon holds
        options={**options, "tagged": True},
        num_records=origin.registered.records,
        parsing=None if origin.parsing is None else origin.parsing.told(),
    )
    return TaggedSource(variant, bool(origin.options.batch_size), origin.parsing)


def _once(
    library: Library,
    origin: Origin,
    delivered: tf.data.Dataset,
    prepared: tf.data.Dataset,
    spec: Any,
    takeover_timeout_s: float | None,
) -> tf.data.Dataset:
    import tensorflow as tf

    from tfquiver.tensorflow_client.tf_source import OnceDataset

    leaves = tf.nest.flatten(spec)
    variant = library.quiver_once_dataset(
        input_dataset=delivered._variant_tensor,
        mop_up_dataset=prepared._variant_tensor,
        digest_id=origin.registered.digest_id,
        num_records=origin.registered.records,
        num_shards=origin.registered.shards,
        endpoint=origin.endpoint,
        hold_back=origin.options.hold_back,
        takeover_ms=0 if takeover_timeout_s is None else max(1, int(takeover_timeout_s * 1000)),
        output_types=[leaf.dtype for leaf in leaves],
        output_shapes=[leaf.shape for leaf in leaves],
    )
    once = OnceDataset(variant, [delivered, prepared], spec)
    once._tfquiver_origin_of = origin  # the way to the node stays open as long as this is used
    return once


def _checked(spec: Any, rows: bool) -> Any:
    """`spec`; raises InvalidArgumentError where rows of it cannot be told apart."""
    import tensorflow as tf

    def checked(leaf: Any) -> Any:
        if type(leaf) is not tf.TensorSpec:
            raise errors.InvalidArgumentError(
                f'transform: guarantee="exactly_once" carries dense tensors, not {leaf}: a data set, ragged or sparse '
                "tensor cannot be told record from record"
            )
        if not rows:
            return leaf
        if leaf.shape.rank == 0 or (leaf.shape.rank is not None and leaf.shape[0] is not None):
            raise errors.InvalidArgumentError(
                f'transform: guarantee="exactly_once" needs a row for each record, but {leaf} has no dimension that '
                "follows the number of records in the batch"
            )
        return leaf

    return tf.nest.map_structure(checked, spec)
