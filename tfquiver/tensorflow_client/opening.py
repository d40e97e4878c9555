"""A registered data set read: sessions under a key of its own, through the node of this machine or by workers."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import logging

from tfquiver.cluster_address import naming
from tfquiver.data_sources_found_and_registered import made_datasets
from tfquiver.data_sources_found_and_registered.progress_bar import ProgressBar
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.server_reachability.lifetimes import user_of
from tfquiver.sizes_durations_amounts.amounts import apart
from tfquiver.tensorflow_client.exactly_once import Origin
from tfquiver.users_arguments_checked.dataset_options import SourceOptions
from tfquiver.users_arguments_checked.option_groups import Progress
from tfquiver.users_arguments_checked.sampled import Sampled

if TYPE_CHECKING:
    import tensorflow as tf

    from tfquiver.data_sources_found_and_registered.described import AtOnce
    from tfquiver.data_sources_found_and_registered.registration import Registrar
    from tfquiver.data_sources_found_and_registered.store_access import StoreAccess
    from tfquiver.proto.tfquiver.v1 import types_pb2
    from tfquiver.stores.credentials.resolved import Access
    from tfquiver.tensorflow_client.parsing import Parsing

_WITHOUT_COORDINATOR = (
    "what its readers were handed is read, then they wait for it. Start it again, with its --work_dir and at this "
    "address, and they go on"
)

_MUCH_READ = 10
_MUCH = (
    "order: an epoch reads %.0f records for each that it gives, since weights within a shard differ so much: copies= "
    "reads fewer (docs/guide/sampling.md, Records with weights)"
)


@dataclass(frozen=True, slots=True)
class Way:
    """How this process reaches a cluster. `cache_dir`: of the node on this machine; None: only workers read."""

    library: Any
    cache_dir: Path | None
    service: str | None
    quota_bytes: int | None
    token: str
    patience_s: float
    accesses: tuple[Access, ...]

    def locate(self) -> endpoints.Locate:
        assert self.cache_dir is not None
        if self.service:
            return functools.partial(endpoints.running_node, self.cache_dir)
        return _starter(self.cache_dir, self.quota_bytes)


@dataclass(frozen=True, slots=True)
class Opening:
    """What a user asked for, so that it can be asked of another data set again. `options`: as checked."""

    way: Way
    options: SourceOptions
    sampled: Sampled | None
    stream: str | None
    resume: bool
    parsing: Parsing | None = None


def opened(
    opening: Opening,
    registered_by: Callable[[Registrar, Progress | None, str], types_pb2.Dataset],
    progress: Progress | None,
    known_at_once: AtOnce | None = None,
) -> tf.data.Dataset:
    """The data set that `registered_by(registrar, progress, client_id)` makes known, to be iterated.

    `known_at_once`: asked first, where nothing else is to be said to the servers.
    """
    way, options, sampled, stream = opening.way, opening.options, opening.sampled, opening.stream
    parsing = opening.parsing
    where, service, token = way.cache_dir, way.service, way.token
    endpoint_name, control, coordinator, node_id = "", None, service, ""
    reaching: StoreAccess | None = None
    if where is not None:
        endpoint_name = endpoints.name_of(where)
        endpoint = endpoints.acquire(endpoint_name, way.locate(), way.library, where)
        control, coordinator, node_id = endpoint.control, service or endpoint.coordinator, endpoint.node_id
        if way.accesses:
            from tfquiver.data_sources_found_and_registered import store_access

            reaching = store_access.of(endpoint_name, token)
    alone = naming.session_key(sampled.asked()[0] if sampled else "")
    session_key = alone if stream is None else naming.stream_key(stream)
    try:
        assert coordinator is not None
        if reaching is not None:
            reaching.use(way.accesses, endpoint)
        known = None
        if known_at_once and not (service or token or sampled or reaching or way.quota_bytes is not None):
            known = known_at_once(coordinator, way.patience_s)
        registered = known or _registered(
            opening, registered_by, progress, coordinator, control, node_id, reaching.client_id if reaching else "",
            session_key,
        )  # fmt: skip
        if reaching is not None:
            reaching.reads(registered.digest_id)
        resumable = None
        if opening.resume:
            from tfquiver.tensorflow_client import resumption

            resumable = resumption.Resumable(options.job, registered.digest_id, session_key, coordinator, token)
            resumption.resume(resumable)
        buffers_counted = options.hold_back_given
        options = options.of_data(registered.records, registered.size_bytes)
        made = _make(registered, session_key, options, endpoint_name, way.library, parsing)
    except BaseException:
        endpoints.release(endpoint_name)
        raise
    if endpoint_name:
        weakref.finalize(user_of(made), endpoints.release, endpoint_name)
    if resumable is not None:
        weakref.finalize(user_of(made), resumption.forget, resumable)
    within = "" if service else endpoint_name  # the coordinator is the node's, or the one that it belongs to
    remembered = made_datasets.MadeDataset(options.job, session_key, coordinator, within, token)
    made_datasets.remember(remembered)
    weakref.finalize(user_of(made), made_datasets.forget, remembered)
    if service:
        from tfquiver.server_reachability import watched_servers
        from tfquiver.server_reachability.watched_servers import Watched

        watched_servers.watch(Watched(service, "coordinator", _WITHOUT_COORDINATOR), made)
    if parsing is not None:
        made = parsing.put_together(made, options.with_position)
    whole = made.with_options(_options(buffers_counted))
    whole._tfquiver_resumable = resumable
    whole._tfquiver_origin = Origin(registered, options, endpoint_name, made, opening.resume, session_key, parsing)
    whole._tfquiver_opening = opening
    return whole


def _registered(
    opening: Opening,
    registered_by: Callable[[Registrar, Progress | None, str], types_pb2.Dataset],
    progress: Progress | None,
    coordinator: str,
    control: str | None,
    node_id: str,
    client_id: str,
    session_key: str,
) -> types_pb2.Dataset:
    """By all that servers are to be asked and told. Imports gRPC."""
    from tfquiver.data_sources_found_and_registered.registration import Registrar

    way, sampled = opening.way, opening.sampled
    with Registrar(coordinator, control, way.token, way.patience_s) as registrar, ProgressBar(progress) as report:
        if way.service and node_id:
            registrar.check_member(node_id, str(way.cache_dir))
        if way.quota_bytes is not None:
            _warn_of_quota(registrar, way.quota_bytes, str(way.cache_dir))
        registered = registered_by(registrar, report, client_id)
        if way.token:
            registrar.claim(session_key, registered.digest_id)
        if sampled:
            from tfquiver.proto.tfquiver.v1.coordinator_pb2 import AskSamplingRequest

            given = sampled.record_weights()
            drawn = registrar.ask_sampling(
                AskSamplingRequest(
                    session_key=session_key, digest_id=registered.digest_id, scheme=sampled.asked()[0],
                    arguments=sampled.arguments_text(), seed=opening.options.seed,
                ),
                given.of(registered.name, registered.content_root, registered.records) if given else None,
            )  # fmt: skip
            if drawn.picked and drawn.records > _MUCH_READ * drawn.picked:
                logging.warning(_MUCH, drawn.records / drawn.picked)
    return registered


def _warn_of_quota(registrar: Registrar, quota_bytes: int, where: str) -> None:
    running = registrar.node_quota_bytes()
    if running != quota_bytes:
        given, its = apart(quota_bytes, running)
        logging.warning("quota=%s: the node of %s runs already, with %s", given, where, its)


def _starter(directory: Path, quota_bytes: int | None) -> endpoints.Locate:
    from tfquiver.node_daemon_and_notes_in_directories.daemon import find_or_start

    return functools.partial(find_or_start, directory, quota_bytes)


def _make(
    registered: types_pb2.Dataset,
    session_key: str,
    options: SourceOptions,
    endpoint: str,
    library: Any,
    parsing: Parsing | None,
) -> tf.data.Dataset:
    from tfquiver.tensorflow_client.tf_source import QuiverSource

    variant = library.quiver_dataset(
        digest_id=registered.digest_id,
        session_key=session_key,
        options=options.for_op(endpoint),
        num_records=registered.records,
        parsing=None if parsing is None else parsing.told(),
    )
    return QuiverSource(variant, options.batch_size, options.drop_remainder, options.with_position, parsing)


def _options(buffers_counted: bool) -> tf.data.Options:
    """`buffers_counted`: the caller said how many elements there are behind the source (`hold_back`)."""
    import tensorflow as tf

    options = tf.data.Options()
    # Under tf.distribute, AUTO would give every replica every n-th record of its own random order: wrong data.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    if buffers_counted:
        # TensorFlow's own prefetch grows in a trainer's pauses, past any number, and a kill takes what is in it along.
        options.experimental_optimization.inject_prefetch = False
    return options
