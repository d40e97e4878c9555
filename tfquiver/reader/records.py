"""`tfquiver.reader.records`: the users' TFRecord files, read without TensorFlow, through the cache of all others."""

from __future__ import annotations

import functools
import os
import secrets
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tfquiver import errors
from tfquiver.cluster_address import naming
from tfquiver.data_sources_found_and_registered import made_datasets, store_access
from tfquiver.data_sources_found_and_registered.described import describe
from tfquiver.data_sources_found_and_registered.made_datasets import MadeDataset
from tfquiver.data_sources_found_and_registered.progress_bar import ProgressBar
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.listing.listing import Source
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint
from tfquiver.reader import native
from tfquiver.reader.batch import Batch
from tfquiver.reader.epoch import Epoch
from tfquiver.reader.share import Share, beginning
from tfquiver.roles_and_tokens import own_token
from tfquiver.users_arguments_checked import checks
from tfquiver.users_arguments_checked.checks import directory
from tfquiver.users_arguments_checked.dataset_options import SourceOptions, checked_options
from tfquiver.users_arguments_checked.option_groups import Connection, FirstUse, Reading, check_group
from tfquiver.users_arguments_checked.orders import Order, Shuffled


@dataclass(frozen=True, slots=True)
class Where:
    """How the node of this machine is found. `quota_bytes`: of a daemon that has to be started."""

    cache_dir: Path
    service: str | None
    quota_bytes: int | None

    @property
    def endpoint_name(self) -> str:
        # Not the op's: each library is told by itself.
        return f"{endpoints.name_of(self.cache_dir)}-reader"

    def acquire(self) -> NodeEndpoint:
        """Raises NotFoundError (a cluster's node does not run here), UnavailableError."""
        if self.service:
            locate = functools.partial(endpoints.running_node, self.cache_dir)
        else:
            from tfquiver.node_daemon_and_notes_in_directories.daemon import find_or_start

            locate = functools.partial(find_or_start, self.cache_dir, self.quota_bytes)
        return endpoints.acquire(self.endpoint_name, locate, native.Sockets(), self.cache_dir)

    def release(self) -> None:
        """Once for each `acquire`."""
        endpoints.release(self.endpoint_name)


class Records:
    """The records of a data set; iterating it once is one epoch of `Batch`es. Made by `records`.

    Attributes:
      num_shards, num_records, num_bytes: of the data set; bytes with the framing of TFRecord files.

    It may be pickled, and used after a fork: each process that iterates has a reader of its own.
    """

    def __init__(
        self, where: Where, options: SourceOptions, digest_id: bytes, num_shards: int, num_records: int,
        num_bytes: int, session_key: str, stream: bool, coordinator: str, token: str,
    ) -> None:  # fmt: skip
        self.where, self.options, self.digest_id = where, options, digest_id
        self.num_shards, self.num_records, self.num_bytes = num_shards, num_records, num_bytes
        self.session_key, self.stream = session_key, stream
        self.coordinator, self.token = coordinator, token
        self._pid = 0
        self._use()

    def __iter__(self) -> Iterator[Batch]:
        return self.epoch()

    def epoch(self, state: bytes | None = None, *, contiguous: bool = False) -> Epoch:
        """An epoch, or the rest of one.

        Args:
          state: of `Epoch.state`, of an iterator over the same data.
          contiguous: the records of a batch lie one after the other also where they are large, which is a copy.

        Raises InvalidArgumentError (a state of another data set, or damaged), NotFoundError, UnavailableError.
        """
        if state is not None and self.stream:
            raise errors.InvalidArgumentError("state=: of a stream, which goes on without those who leave it")
        opening = self.opening()
        if self.stream:
            opening = replace(opening, provider_id=f"{naming.session_key()}:0", adopts=True)
        return Epoch(replace(opening, position=state), contiguous)

    def opening(self) -> native.Opening:
        """What a reader of this process needs. Raises NotFoundError, UnavailableError."""
        self._use()
        options = self.options.for_op(self.where.endpoint_name)
        return native.Opening(options, self.digest_id, self.session_key)

    def beginning(self, share: Share, epoch: int) -> bytes:
        """The position before the first record of a share of an epoch, as `Epoch.state` gives those behind one."""
        seed = self.options.seed or secrets.randbits(63)  # without one the order need not come again
        shuffled = self.options.shuffle_bytes > 0
        return beginning(share, self.digest_id, self.num_shards, seed, epoch, shuffled)

    def _use(self) -> None:
        """Keeps this process's way to the node open as long as this object is in use in it."""
        if self._pid == os.getpid():
            return
        self.where.acquire()
        self._pid = os.getpid()
        weakref.finalize(self, endpoints.release, self.where.endpoint_name).atexit = False
        within = "" if self.where.service else self.where.endpoint_name
        known = MadeDataset(self.options.job, self.session_key, self.coordinator, within, self.token)
        made_datasets.remember(known)  # `tfquiver.step` says how long steps take
        weakref.finalize(self, made_datasets.forget, known).atexit = False

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_pid": 0}


def records(
    source: Source,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    service: str | None = None,
    quota: int | str | None = None,
    batch_size: int = 256,
    drop_remainder: bool = False,
    order: Order = Shuffled(),
    job: str | None = None,
    stream: str | None = None,
    reading: Reading = Reading(),
    first_use: FirstUse = FirstUse(),
    connection: Connection = Connection(),
    _session_key: str | None = None,
) -> Records:
    """The records of TFRecord files, each exactly once an epoch, read through a cache that many jobs share.

    The same as `tfquiver.dataset`, with the same arguments, for those who have no TensorFlow: elements are batches of
    buffers. What is cached, and what an epoch is, jobs of both kinds share.

    Args:
      stream: a name; all who give it read one epoch between them, each record goes to one of them: who comes joins the
        epoch that is under way, or begins the next. None: an epoch of one's own.

    The others, and what is raised, as for `tfquiver.dataset`; here errors are those of `tfquiver.errors` only, and
    ReaderLibraryError (an ImportError) says that there is no library for readers.
    """
    options = checked_options(batch_size, drop_remainder, order, job, reading, connection, stream)
    check_group("first_use", first_use, FirstUse)
    if options.with_position:
        raise errors.InvalidArgumentError("order=Deterministic(with_position=True): not for readers without TensorFlow")
    if options.sampling:
        raise errors.InvalidArgumentError(
            f"order={order!r}: sampling schemes are not for readers without TensorFlow yet"
        )
    cache_dir, service = naming.cluster(cache_dir, service)
    if cache_dir is None:
        raise errors.InvalidArgumentError("cache_dir=: the directory of this machine's node is needed to read here")
    if quota is not None and service is not None:
        raise errors.InvalidArgumentError("quota= is for the daemon of cache_dir=; a cluster's nodes have a --quota")
    quota_bytes = checks.quota(quota)
    token = own_token.of_user(connection.auth_token_file)
    where = Where(directory("cache_dir", cache_dir), service, quota_bytes)
    native.library()
    described, accesses, _ = describe(source, first_use, options.files)
    endpoint = where.acquire()
    try:
        reaching = store_access.of(where.endpoint_name, token) if accesses else None
        if reaching is not None:
            reaching.use(accesses, endpoint)
        coordinator = service or endpoint.coordinator
        session_key = (_session_key or naming.session_key()) if stream is None else naming.stream_key(stream)
        with (
            Registrar(coordinator, endpoint.control, token, connection.connect_timeout_s) as registrar,
            ProgressBar(first_use.progress) as report,
        ):
            if service:
                registrar.check_member(endpoint.node_id, str(where.cache_dir))
            registered = described(registrar, report, reaching.client_id if reaching else "")
            if token:
                registrar.claim(session_key, registered.digest_id)
        if reaching is not None:
            reaching.reads(registered.digest_id)
        options = options.of_data(registered.records, registered.size_bytes)
        options = replace(options, job=options.job or f"job-{session_key[:12]}", joins=False)  # it is told otherwise
        return Records(
            where, options, registered.digest_id, registered.shards, registered.records, registered.size_bytes,
            session_key, stream is not None, coordinator, token,
        )  # fmt: skip
    finally:
        endpoints.release(where.endpoint_name)
