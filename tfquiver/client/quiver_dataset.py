"""`tfquiver.dataset`: the users' TFRecord files as a tf.data source that shares one cache with everybody else."""

from __future__ import annotations

import functools
import os
import re
import sys
import uuid
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from absl import logging

from tfquiver import errors
from tfquiver.client import resumption, store_access
from tfquiver.client.dataset_options import SourceOptions, check_name, check_seconds, checked_options, directory, size
from tfquiver.client.exactly_once import Origin
from tfquiver.client.listed import accesses_of, listed
from tfquiver.client.registration import Progress, Registrar
from tfquiver.content.cutting import CutPolicy
from tfquiver.content.digest import Digest
from tfquiver.content.listing_terms import ListingTerms
from tfquiver.host import endpoints
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.listing import Source
from tfquiver.stores.access import Access, place_of
from tfquiver.trust import own_token
from tfquiver.wire import addresses

if TYPE_CHECKING:
    import tensorflow as tf

_MAX_NAME = 64


def dataset(
    source: Source,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    service: str | None = None,
    batch_size: int | None = None,
    drop_remainder: bool = False,
    shuffle_bytes: int | str = "64MiB",
    readahead_bytes: int | str = "32MiB",
    seed: int | None = None,
    job: str | None = None,
    resume: bool = False,
    name: str | None = None,
    quota: int | str | None = None,
    hold_back: int | None = None,
    order: Literal["deterministic"] | None = None,
    with_position: bool = False,
    homogeneous: bool = False,
    order_log: str | os.PathLike[str] | None = None,
    replay: str | os.PathLike[str] | None = None,
    cut: CutPolicy | None = None,
    auth_token_file: str | os.PathLike[str] | None = None,
    connect_timeout_s: float = 30.0,
    reconnect_timeout_s: float = 60.0,
    progress: Progress | None = None,
) -> tf.data.Dataset:
    """The records of TFRecord files, each exactly once an epoch in random order, read through a cache.

    The result is an ordinary `tf.data.Dataset`; iterating it once is one epoch. Its elements are the records' bytes:
    scalar `tf.string` tensors (shape `[]`), or with `batch_size=B` vectors (shape `[None]`, the last of an epoch may be
    shorter; shape `[B]` with `drop_remainder=True`). Batching in the source is much faster than `.batch(B)` for small
    records. Its cardinality is known.

    Two ways to use it:

    * `cache_dir=` alone: one machine. All processes that name the same directory share one cache daemon, which is
      started when there is none and leaves when it has been idle.
    * `service="host:port"`: a cluster's coordinator. With `cache_dir=` too, records are read here, through the node
      that runs on this machine with that cache directory. Without it nothing can be read in this process: the data
      set is meant for `tfquiver.distribute` or `tf.data.experimental.service.distribute`, whose workers read.

    The first use of files that nobody has used before scans them once (and caches them on the way); later uses find
    the result by the files' names, sizes and generations.

    Args:
      source: a path, glob or URI (`gs://bucket/train-*`), a sequence of them, or one path to a digest (`.tfqd`).
      cache_dir: directory of the cache on this machine.
      service: address of the coordinator, host:port or unix:/path.
      batch_size: records in an element; None: elements are single records.
      drop_remainder: with `batch_size`: leave out an epoch's last, shorter batch.
      shuffle_bytes: records are drawn at random from a pool of about so many bytes; 0: each shard's records in order
        (shards still come in random order). A number of bytes or text such as "64MiB".
      readahead_bytes: bytes of shards asked for ahead of the pool.
      seed: makes the random choices of an epoch of `job` repeatable where the cache's contents are; jobs and epochs of
        one seed have other orders. 0 to 2**63 - 1.
      job: name of the training run, for accounting and display; None: a random one.
      resume: go on with the epoch that the last run of `job` left in the middle (docs/resume.md). Its next iterations
        give what that epoch has not delivered, until it is finished; those after it are whole epochs. Whoever still
        reads that epoch gets an error: runs at the same time need names of their own.
      name: name of the data set, for display, when nobody has used it before; None: taken from `source`.
      quota: bytes the cache may use (an integer or "10GiB"), when this call starts the daemon.
      hold_back: elements behind this source that may still be buffered when it has emitted more: the depth of maps,
        batches and prefetches, in elements of this source. Records become "read" only when so many more elements have
        been emitted, so that a killed tf.data worker (with `resume`: a killed trainer) loses none; what it costs is
        that these come again then. None: as many as 4 GiB of records, but from 64 to 1024 batches with `batch_size`,
        else from 16384 to 262144 records. Nothing bounds `prefetch(tf.data.AUTOTUNE)` but memory: before `distribute`
        give it a number where pauses of the trainer are more than 1000 steps apart.
      order: "deterministic": the order of an epoch is a function of `seed`, the epoch's number among those of `job`,
        `shuffle_bytes` and the data set alone, whatever is cached and however many readers there are: shards in a
        seeded permutation, in blocks of about `shuffle_bytes`, whose records are shuffled. A reader reads whole blocks
        and must wait for each of their shards, which costs throughput where the cache is cold. None: what is cached
        comes first.
      with_position: with order="deterministic": elements are pairs of the records' positions in that order (int64, of
        the shape of the records) and the records. Merged by position, the outputs of all readers of an epoch are the
        sequence that one reader sees.
      homogeneous: records come from one stripe unit (a stretch of the data set) at a time, so that where it is sorted
        by length, a batch holds records of like length; a batch is mixed only where one unit ends. A unit is about
        `shuffle_bytes` long, or a 64th of the data set where that is less, but no less than eight batches
        (`batch_size`, or 128 records); where the data set is cached by chunks, it is a unit of these.
      order_log: folder to which the order that is served is written, a file an epoch (`epoch-00000.tqo`, ...; 16 bytes
        a shard), for `replay`. Not for tf.data service.
      replay: a folder written by `order_log`, of which epoch n replays file n, or one such file, which every epoch
        replays: the same records in the same sequence, whatever is cached. Takes the same files, `shuffle_bytes` and
        `readahead_bytes`; `seed` is the log's. A log that was cut off (its process was killed) is replayed as far as it
        goes, with a warning. Iterators cannot be saved. Not for tf.data service.
      cut: sizes of shards; None: 0.5, 2 and 8 MiB.
      auth_token_file: file whose first line is the cluster's token.
      connect_timeout_s: seconds until a server that does not answer is an error here.
      reconnect_timeout_s: seconds that an iterator waits for a node that is gone before it fails.
      progress: called with (bytes done, bytes in all) while a first scan runs; None: a progress bar on a terminal.

    Raises:
      InvalidArgumentError: an argument that cannot be right; names it.
      NotFoundError: a pattern of `source` matches nothing, or no node runs in `cache_dir`; names it.
      CorruptDigestError, DataLossError: a damaged digest or TFRecord file; names file and offset.
      StaleDigestError: a file changed while it was scanned.
      UnavailableError: coordinator, node or store did not answer within `connect_timeout_s`.
      ImportError: the op was not built for this TensorFlow; says what to run.

    Iterators raise `tf.errors.UnavailableError` when the node stays away longer than `reconnect_timeout_s`,
    `tf.errors.FailedPreconditionError` naming an object that changed, `tf.errors.DataLossError` naming a damaged one;
    with `order_log`, `tf.errors.AlreadyExistsError` naming a log that would be written over; with `replay`,
    `tf.errors.NotFoundError`, `InvalidArgumentError` (another data set, other options) and `DataLossError` naming the
    log.
    """
    options = checked_options(
        batch_size, drop_remainder, shuffle_bytes, readahead_bytes, seed, job, hold_back, reconnect_timeout_s,
        order, with_position, homogeneous, order_log, replay,
    )  # fmt: skip
    if cache_dir is None and service is None:
        raise errors.InvalidArgumentError(
            "give cache_dir= (one machine) or service= (a coordinator's address), or both"
        )
    if service is not None and not (isinstance(service, str) and addresses.is_address(service)):
        raise errors.InvalidArgumentError(f"service={service!r}: must be host:port or unix:/path")
    if quota is not None and service is not None:
        raise errors.InvalidArgumentError("quota= is for the daemon of cache_dir=; a cluster's nodes have a --quota")
    quota_bytes = None if quota is None else size("quota", quota, 1)
    if cut is not None and not isinstance(cut, CutPolicy):
        raise errors.InvalidArgumentError(f"cut={cut!r}: must be a tfquiver.CutPolicy")
    if not isinstance(resume, bool):
        raise errors.InvalidArgumentError(f"resume={resume!r}: must be True or False")
    if resume and (order_log is not None or replay is not None):
        raise errors.InvalidArgumentError("resume=True: not with order_log= or replay=, which are of whole epochs")
    if resume and job is None:
        raise errors.InvalidArgumentError("resume=True needs job=: the name that the interrupted run had")
    check_name("name", name)
    check_seconds("connect_timeout_s", connect_timeout_s)
    token = own_token.read_token("" if auth_token_file is None else os.fspath(auth_token_file))
    where = None if cache_dir is None else directory("cache_dir", cache_dir)
    described, accesses = _describe(source, cut)

    from tfquiver.ops import loader  # imports TensorFlow

    library = loader.load()
    endpoint_name, control, coordinator, node_id = "", None, service, ""
    reaching: store_access.StoreAccess | None = None
    if where is not None:
        locate = functools.partial(endpoints.running_node, where) if service else _starter(where, quota_bytes)
        endpoint_name = endpoints.name_of(where)
        endpoint = endpoints.acquire(endpoint_name, locate, library)
        control, coordinator, node_id = endpoint.control, service or endpoint.coordinator, endpoint.node_id
        reaching = store_access.of(endpoint_name, token) if accesses else None
    session_key = uuid.uuid4().hex
    try:
        assert coordinator is not None
        if reaching is not None:
            reaching.use(accesses, endpoint)
        with Registrar(coordinator, control, token, connect_timeout_s) as registrar, _Bar(progress) as report:
            if service and node_id:
                registrar.check_member(node_id, str(where))
            if quota_bytes is not None:
                _warn_of_quota(registrar, quota_bytes, str(where))
            registered = described(registrar, name, report, reaching.client_id if reaching else "")
            if name is not None and registered.name != name:
                logging.warning("name=%r: the data set has been known as %r since its first use", name, registered.name)
            if token:
                registrar.claim(session_key, registered.digest_id)
        if reaching is not None:
            reaching.reads(registered.digest_id)
        resumable = None
        if resume:
            resumable = resumption.Resumable(options.job, registered.digest_id, session_key, coordinator, token)
            resumption.resume(resumable)
        options = options.of_data(registered.records, registered.size_bytes)
        made = _make(registered, session_key, options, endpoint_name, library)
    except BaseException:
        endpoints.release(endpoint_name)
        raise
    if endpoint_name:
        weakref.finalize(_user_of(made), endpoints.release, endpoint_name)
    if resumable is not None:
        weakref.finalize(_user_of(made), resumption.forget, resumable)
    whole = _without_autoshard(made)
    whole._tfquiver_resumable = resumable
    whole._tfquiver_origin = Origin(registered, options, endpoint_name, made, resume, session_key)
    return whole


# AutoGraph would turn all of this into graph code where it is called in a tf.function: seconds, and warnings. This is
# what `tf.autograph.experimental.do_not_convert` leaves on a function; TensorFlow is not imported here.
dataset.autograph_info__ = {}  # type: ignore[attr-defined]


def _user_of(made: tf.data.Dataset) -> Any:
    """Who keeps the node in use: the data set, or the function that it was made in, which outlives it."""
    import tensorflow as tf

    return made if isinstance(made._variant_tensor, tf.__internal__.EagerTensor) else made._variant_tensor.graph


def _warn_of_quota(registrar: Registrar, quota_bytes: int, where: str) -> None:
    running = registrar.node_quota_bytes()
    if running != quota_bytes:
        logging.warning("quota=%d: the node of %s runs already, with %d bytes", quota_bytes, where, running)


_Register = Callable[[Registrar, str | None, Progress | None, str], types_pb2.Dataset]


def _describe(source: Source, cut: CutPolicy | None) -> tuple[_Register, list[Access]]:
    """Looks at the source (this may raise); returns what registers it, and the ways to the stores it is in."""
    if isinstance(source, str | os.PathLike) and os.fspath(source).endswith(".tfqd"):
        if "://" in (named := os.fspath(source)).removeprefix("file://"):
            raise errors.InvalidArgumentError(f"{named}: a digest is read from a file of this machine: copy it here")
        path = Path(named.removeprefix("file://")).expanduser()
        if cut is not None:
            raise errors.InvalidArgumentError(f"cut=: {path} is a digest, it says where its shards end")
        if not path.is_file():
            raise errors.NotFoundError(f"no digest file at {path}")
        uris = (file.uri for file in Digest.open(path).files)
        return lambda registrar, _name, _progress, _client_id: registrar.digest(path), accesses_of(uris)
    if any(type(one).__module__.startswith("tensorflow.") for one in (source, *_parts(source))):
        raise errors.InvalidArgumentError(
            f"source={source!r}: a tensor; files must be named when the pipeline is built. In place of interleave() or "
            "flat_map() over file names give all of them at once, tfquiver.dataset(names): it mixes their records"
        )
    try:
        files, accesses = listed(source)
    except TypeError as error:
        raise errors.InvalidArgumentError(f"source={source!r}: must be a path or a sequence of paths") from error
    terms = ListingTerms(cut or CutPolicy(), place_of(accesses))

    def register(
        registrar: Registrar, name: str | None, progress: Progress | None, client_id: str
    ) -> types_pb2.Dataset:
        return registrar.files(files, terms, name or _name_from(source), progress, client_id)

    return register, accesses


def _parts(source: object) -> Sequence[object]:
    return source if isinstance(source, list | tuple) else ()


def _name_from(source: Source) -> str:
    first = os.fspath(source if isinstance(source, str | os.PathLike) else source[0])
    stem = re.sub(r"[*?\[].*", "", first.rstrip("/").rsplit("/", 1)[-1]).rstrip("-_.")
    return (stem or first)[:_MAX_NAME]


def _starter(directory: Path, quota_bytes: int | None) -> endpoints.Locate:
    from tfquiver.host.daemon import find_or_start

    return functools.partial(find_or_start, directory, quota_bytes)


def _make(
    registered: types_pb2.Dataset, session_key: str, options: SourceOptions, endpoint: str, library: Any
) -> tf.data.Dataset:
    from tfquiver.client.tf_source import QuiverSource

    variant = library.quiver_dataset(
        digest_id=registered.digest_id,
        session_key=session_key,
        options=options.for_op(endpoint),
        num_records=registered.records,
    )
    return QuiverSource(variant, options.batch_size, options.drop_remainder, options.with_position)


def _without_autoshard(made: tf.data.Dataset) -> tf.data.Dataset:
    """Under tf.distribute, AUTO would give every replica every n-th record of its own random order: wrong data."""
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return made.with_options(options)


class _Bar:
    """The user's progress callback, or a bar on a terminal, or nothing."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._bar: Any = None

    def __enter__(self) -> Progress | None:
        if self._progress is not None or not sys.stderr.isatty():
            return self._progress
        from rich.console import Console
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(console=Console(stderr=True), transient=True)
        self._bar.start()
        task = self._bar.add_task("first use: scanning", total=None)
        return lambda done, total: self._bar.update(task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
