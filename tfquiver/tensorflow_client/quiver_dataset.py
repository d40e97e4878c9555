"""`tfquiver.dataset`: the users' TFRecord files as a tf.data source that shares one cache with everybody else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import logging

from tfquiver import errors
from tfquiver.cluster_address import naming
from tfquiver.data_sources_found_and_registered.described import describe
from tfquiver.digests import formats
from tfquiver.listing.listing import Source
from tfquiver.roles_and_tokens import own_token
from tfquiver.tensorflow_client import element_transport
from tfquiver.tensorflow_client.opening import Opening, Way, opened
from tfquiver.tensorflow_client.tf_errors import raised_as_both
from tfquiver.users_arguments_checked import checks
from tfquiver.users_arguments_checked.checks import check_flag, directory
from tfquiver.users_arguments_checked.dataset_options import checked_options
from tfquiver.users_arguments_checked.option_groups import Connection, FirstUse, Progress, Reading, check_group
from tfquiver.users_arguments_checked.orders import Order, Shuffled
from tfquiver.users_arguments_checked.sampled import Sampled

if TYPE_CHECKING:
    import tensorflow as tf

    from tfquiver.data_sources_found_and_registered.registration import Registrar
    from tfquiver.proto.tfquiver.v1 import types_pb2
    from tfquiver.users_arguments_checked.fixed_length import FixedLength


@raised_as_both()
def dataset(
    source: Source,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    service: str | None = None,
    quota: int | str | None = None,
    batch_size: int | None = None,
    drop_remainder: bool = False,
    parse: Mapping[str, Any] | FixedLength | None = None,
    order: Order = Shuffled(),
    job: str | None = None,
    stream: str | None = None,
    resume: bool = False,
    reading: Reading = Reading(),
    first_use: FirstUse = FirstUse(),
    connection: Connection = Connection(),
) -> tf.data.Dataset:
    """The records of TFRecord files, each exactly once an epoch, read through a cache that many jobs share.

    A `tf.data.Dataset` of known length; iterating it once is one epoch. Its elements are records: `tf.string` scalars,
    or with `batch_size=B` vectors of B, much faster than `.batch(B)`. The first use of files scans and caches them.

    With `cache_dir` alone: one machine, one daemon for all who name the directory; it starts and leaves by itself. With
    `service` too: a cluster, read through the node that runs here with that cache directory. With `service` alone: for
    `tfquiver.distribute`, whose workers read. Without either: what the environment's TFQUIVER_SERVICE names.

    Args:
      source: a path, glob or URI ("gs://b/train-*"), a sequence of them, a digest (`.tfqd`), or a data set's name.
      cache_dir: directory of the cache on this machine.
      service: address of the coordinator, host:port or unix:/path; a directory is a `cache_dir`.
      quota: bytes of the cache ("200GiB"), when this call starts the daemon; None: as before, or 80 % of what is free.
      batch_size: records in an element; None: elements are single records.
      drop_remainder: with `batch_size`: leave out an epoch's last, shorter batch.
      parse: features, or `FixedLength`: elements are as of `tf.io.parse_example` or `decode_raw`, faster than by `map`.
      order: `tfquiver.Shuffled(...)`; "files": as in the files, sorted by name, every time, for validation, `take`;
        `Deterministic(seed)`; `Replay(log)`; or a sampling scheme, such as `Weighted(...)`: the length is unknown then.
      job: name of the training run, for accounting and display; None: a random one.
      stream: a name; all who give it, here or to `tfquiver.reader` and `tfquiver.torch`, read one epoch between them.
      resume: go on with the epoch that the last run of `job` left in the middle (docs/resume.md).
      reading: `tfquiver.Reading(...)`: how much is read ahead, and when a record counts as read.
      first_use: `tfquiver.FirstUse(...)`: name, cutting and progress where nobody has used the files before.
      connection: `tfquiver.Connection(...)`: token and timeouts.

    Raises, all also of the class of `tf.errors` of that kind:
      InvalidArgumentError: an argument that cannot be right; names it.
      NotFoundError: a pattern of `source` matches nothing, nor has a data set that name, or no node runs; names it.
      CorruptDigestError, DataLossError, StaleDigestError: a damaged digest or file, or a file that changed; names it.
      UnavailableError: coordinator, node or store did not answer within `connect_timeout_s`.
      TensorFlowError (an ImportError): no TensorFlow here, or no op for it and none can be compiled; says what to do.
    Iterators raise `tf.errors.UnavailableError` (no node), `FailedPreconditionError` (a file changed), `DataLossError`.
    """
    options = checked_options(batch_size, drop_remainder, order, job, reading, connection, stream)
    check_group("first_use", first_use, FirstUse)
    cache_dir, service = naming.cluster(cache_dir, service)
    if quota is not None and service is not None:
        raise errors.InvalidArgumentError("quota= is for the daemon of cache_dir=; a cluster's nodes have a --quota")
    quota_bytes = checks.quota(quota)
    check_flag("resume", resume)
    if resume and (options.order_log or options.replay):
        raise errors.InvalidArgumentError("resume=True: not with log_dir= or Replay(), which are of whole epochs")
    if resume and job is None:
        raise errors.InvalidArgumentError("resume=True needs job=: the name that the interrupted run had")
    if resume and stream is not None:
        raise errors.InvalidArgumentError("resume=True: not with stream=, whose epochs are gone on with by who is left")
    if stream is not None and cache_dir is None:
        raise errors.InvalidArgumentError("stream= needs cache_dir=: it is read in this process, not by workers")
    if options.files and cache_dir is None:
        raise errors.InvalidArgumentError(
            'order="files" needs cache_dir=: workers of tf.data service cannot keep one order, records are read here'
        )
    token = own_token.of_user(connection.auth_token_file)
    element_transport.remember(token)
    where = None if cache_dir is None else directory("cache_dir", cache_dir)
    described = describe(source, first_use, options.files)

    from tfquiver.ops.compiling_and_loading import loader  # imports TensorFlow

    way = Way(
        loader.load(), where, service, quota_bytes, token, connection.connect_timeout_s, tuple(described.accesses)
    )
    sampled = order if isinstance(order, Sampled) else None
    parsing = None
    if parse is not None:
        from tfquiver.tensorflow_client.parsing import parsing_of  # imports TensorFlow

        parsing = parsing_of(parse, options.batch_size)

    def checked(found: types_pb2.Dataset) -> types_pb2.Dataset:
        if found.size_bytes and not found.records:
            raise errors.InvalidArgumentError(
                f"source={source!r}: data set {found.name!r} has format bytes: it has no records to read; "
                "`tfquiver mount` shows its files"
            )
        if not found.size_bytes:
            logging.warning("source=%r: data set %r: %s", source, found.name, formats.NOTHING)
        name = first_use.name
        if name is not None and found.name != name:
            logging.warning("name=%r: the data set has been known as %r since its first use", name, found.name)
        return found

    def registered(registrar: Registrar, report: Progress | None, client_id: str) -> types_pb2.Dataset:
        return checked(described.register(registrar, report, client_id))

    def at_once(coordinator: str, patience_s: float) -> types_pb2.Dataset | None:
        known = described.known_at_once(coordinator, patience_s)
        return None if known is None else checked(known)

    return opened(Opening(way, options, sampled, stream, resume, parsing), registered, first_use.progress, at_once)


# AutoGraph would turn all of this into graph code where it is called in a tf.function: seconds, and warnings. This is
# what `tf.autograph.experimental.do_not_convert` leaves on a function; TensorFlow is not imported here.
dataset.autograph_info__ = {}  # type: ignore[attr-defined]
