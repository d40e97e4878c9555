"""`tfquiver.distribute`: tf.data service as tfquiver needs it, in one word."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfquiver import errors
from tfquiver.cluster_address import naming
from tfquiver.server_reachability import reaching, watched_servers
from tfquiver.server_reachability.watched_servers import Watched
from tfquiver.tensorflow_client import element_transport, exactly_once, waiting_told
from tfquiver.tensorflow_client.tf_errors import raised_as_both
from tfquiver.tensorflow_dispatcher_and_worker_connections import kept_dataset
from tfquiver.tensorflow_dispatcher_and_worker_connections.worker_connections import WorkerConnections
from tfquiver.users_arguments_checked.checks import check_integer, check_name, check_seconds

if TYPE_CHECKING:
    import tensorflow as tf

AT_LEAST_ONCE, EXACTLY_ONCE = GUARANTEES = ("at_least_once", "exactly_once")
_MAX_TIMEOUT_S = 3600.0
_MAX_BATCH = 1 << 24


@raised_as_both()
def distribute(
    dispatcher: str | None = None,
    *,
    job_name: str | None = None,
    max_outstanding_requests: int | None = None,
    compression: str | None = "AUTO",
    data_transfer_protocol: str | None = None,
    connect_timeout_s: float = 30.0,
    guarantee: str = AT_LEAST_ONCE,
    transform: Callable[[Any], Any] | None = None,
    batch_size: int | None = None,
    takeover_timeout_s: float | None = 60.0,
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """A transformation for `Dataset.apply`: what stands before it runs in tf.data service workers.

    The same as `tf.data.experimental.service.distribute` with `ShardingPolicy.DYNAMIC` (each record goes to one
    worker), with automatic sharding off and the dispatcher's address checked first: TensorFlow would wait for a wrong
    one for ever.

    Several tfquiver data sets are best joined behind it. `zip` before it may lose a last record for each worker, and
    a worker that waits for what another holds of the other data set goes on only after some seconds.

    A dispatcher that does not answer any more is waited for without end, as TensorFlow does. While there is a data set
    that is read through it a thread looks at its port every 3 s, and warns (Python's logging, logger `absl`) within
    some seconds, and then ever more rarely, that it is gone, what happens now and what to do. It also has the kernel
    end this process's connections to workers, and to the dispatcher, when their machine has been silent for 30 s
    (TCP_USER_TIMEOUT; Linux): one without power would else be waited for for a quarter of an hour.

    Args:
      dispatcher: address of the `tfquiver-dispatcher`, host:port (a leading `grpc://` is allowed), or the cache
        directory in which `tfquiver up` runs one; None: the directory that the environment's TFQUIVER_SERVICE names.
      job_name: trainers that give the same name share one epoch's records between them (what stands in for `shard()`
        and automatic sharding, which would give wrong data); None: each has its own.
      max_outstanding_requests: elements asked for ahead; None: chosen by tf.data. Give at least one more than workers
        may be lost: TensorFlow goes on asking a lost one, with longer and longer pauses, and one request waits with it.
        With 1 nearly nothing comes meanwhile from the workers that are left.
      compression: "AUTO", or None: elements travel as they are, which is faster when records are compressed already.
      data_transfer_protocol: how elements come from workers; None: what the environment's
        TFQUIVER_DATA_TRANSFER_PROTOCOL says, "grpc" where it says nothing. "grpc": TensorFlow's own, which every worker
        speaks.
        "tfquiver": shared memory on one machine, TCP between two, several times as fast; needs `tfquiver-worker`s, else
        reading fails and says so. "AUTO": "tfquiver" where this TensorFlow has a plug for it and no `job_name` is
        given, else "grpc". A worker whose transport cannot be reached, or takes no token of this process, is read by
        gRPC.
      connect_timeout_s: seconds until a dispatcher that does not answer is an error here; a warning says so after two.
        Where nobody listens it is an error at once.
      guarantee: what holds when workers are lost in mid-epoch. "at_least_once": no record is lost, some come again.
        "exactly_once": every record comes once; the data set must be what `tfquiver.dataset` returned, with the
        `cache_dir` of a node on this machine, and what workers do with the records is given as `transform`.
      transform: applied to the elements in the workers, in parallel. With "exactly_once" a tensor of the result has
        one row for each record, in the order of the records (where elements are single records: anything dense). It is
        also applied here, to what no worker delivered.
      batch_size: transformed records in a batch; for data sets of single records.
      takeover_timeout_s: with "exactly_once": when no worker has given anything for so long, this process reads the
        rest of the epoch itself, as it does when they fail; None: it waits for ever where no worker and no dispatcher
        is there. While TensorFlow waits for an element Ctrl-C waits with it.

    Raises:
      InvalidArgumentError: an argument that cannot be right, or a guarantee that cannot be kept; names it.
      ResourceExhaustedError: the dispatcher's disk has not taken the data set (when that is applied).
      UnavailableError: nobody listens there, or the dispatcher does not answer within `connect_timeout_s`.
    """
    address = naming.dispatcher(dispatcher)
    if compression not in ("AUTO", None):
        raise errors.InvalidArgumentError(f'compression={compression!r}: must be "AUTO" or None')
    check_name("job_name", job_name)
    protocol = element_transport.for_job(data_transfer_protocol, job_name)
    if max_outstanding_requests is not None and (
        isinstance(max_outstanding_requests, bool)
        or not isinstance(max_outstanding_requests, int)
        or max_outstanding_requests < 1
    ):
        raise errors.InvalidArgumentError(f"max_outstanding_requests={max_outstanding_requests!r}: must be 1 or more")
    if (
        isinstance(connect_timeout_s, bool)
        or not isinstance(connect_timeout_s, int | float)
        or not 0 < connect_timeout_s <= _MAX_TIMEOUT_S
    ):
        raise errors.InvalidArgumentError(
            f"connect_timeout_s={connect_timeout_s!r}: must be more than 0 and at most {_MAX_TIMEOUT_S:.0f}"
        )
    if guarantee not in GUARANTEES:
        raise errors.InvalidArgumentError(f"guarantee={guarantee!r}: must be one of {', '.join(GUARANTEES)}")
    if guarantee == EXACTLY_ONCE and job_name is not None:
        raise errors.InvalidArgumentError(
            f"job_name={job_name!r}: trainers that share an epoch cannot each see every record exactly once"
        )
    if transform is not None and not callable(transform):
        raise errors.InvalidArgumentError(f"transform={transform!r}: must be a function")
    if batch_size is not None:
        check_integer("batch_size", batch_size, 1, _MAX_BATCH)
    if takeover_timeout_s is not None:
        check_seconds("takeover_timeout_s", takeover_timeout_s)
    reaching.check_answers(address, connect_timeout_s, f"dispatcher={address!r}")

    import tensorflow as tf

    protocol = element_transport.chosen(protocol)
    service = tf.data.experimental.service
    stock = service.distribute(
        processing_mode=service.ShardingPolicy.DYNAMIC,
        service=f"grpc://{address}",
        job_name=job_name,
        max_outstanding_requests=max_outstanding_requests,
        compression=compression,
        data_transfer_protocol=None if protocol == element_transport.GRPC else protocol,
    )
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF

    where = naming.dispatcher_directory(dispatcher)

    def distributed(dataset: tf.data.Dataset) -> tf.data.Dataset:
        made = dataset.with_options(options).apply(stock)
        if dataset_id := _registered_as(made):
            kept_dataset.check(address, dataset_id, where)
        return made.with_options(options)

    @raised_as_both()
    def apply(dataset: tf.data.Dataset) -> tf.data.Dataset:
        exactly_once.check_not_read_here(dataset)
        if guarantee == EXACTLY_ONCE:
            whole = exactly_once.deliver(dataset, distributed, transform, batch_size, takeover_timeout_s)
            made = whole.with_options(options)
        else:
            if transform is not None:
                dataset = dataset.map(transform, num_parallel_calls=tf.data.AUTOTUNE)
            keys = waiting_told.keys_of(dataset)
            made = distributed(dataset if batch_size is None else dataset.batch(batch_size))
            made = _ends_at_once(made, address, keys).with_options(options)
        takeover_s = takeover_timeout_s if guarantee == EXACTLY_ONCE else None
        made._tfquiver_distributed = dataset  # who can compute what of it is missing stays as long as this is used
        then, connections = _without_dispatcher(takeover_s), WorkerConnections(address)

        def meanwhile() -> None:
            waiting_told.tell()
            connections.look()

        watched = Watched(
            address, "tf.data service dispatcher", then, meanwhile, "TensorFlow", every_s=waiting_told.EVERY_S
        )
        watched_servers.watch(watched, made)
        return made

    apply.autograph_info__ = {}  # type: ignore[attr-defined]  # see tfquiver.dataset
    return apply


def _registered_as(made: tf.data.Dataset) -> str:
    """By which its dispatcher knows what tf.data service has made; empty: that is not known here, as in a function."""
    import tensorflow as tf

    while (known := getattr(made, "_dataset_id", None)) is None:
        if len(inputs := made._inputs()) != 1:
            return ""
        (made,) = inputs
    if not isinstance(known, tf.__internal__.EagerTensor) or known.dtype != tf.string:
        return ""
    return str(known.numpy().decode())


def _ends_at_once(dataset: tf.data.Dataset, dispatcher: str, keys: frozenset[str]) -> tf.data.Dataset:
    """Decision 0063; and it is told when its iterators wait (0021). Where what is distributed is not ours, nothing is
    compiled for it."""
    from tfquiver.ops.compiling_and_loading import loader
    from tfquiver.tensorflow_client.tf_source import EndsAtOnce

    library = loader.loaded()
    if library is None:
        return dataset
    made = EndsAtOnce(dataset, library, waiting_told.name_of(dispatcher, keys))
    waiting_told.tell_of(made, dispatcher, keys, library.waiting)
    return made


def _without_dispatcher(takeover_s: float | None) -> str:
    again = "Start it again at this address (`tfquiver up` takes the ports it had) and reading goes on"
    if takeover_s is not None:
        return (
            f"this process reads the rest of the epoch itself when its workers have given nothing for {takeover_s:g} s "
            f"(takeover_timeout_s=). {again} through the workers"
        )
    return (
        "TensorFlow asks it again without end, and who reads through tfquiver.distribute waits when the workers give "
        f"no more; Ctrl-C waits, too. {again} within about a minute; `kill {os.getpid()}` ends this process"
    )


distribute.autograph_info__ = {}  # type: ignore[attr-defined]
