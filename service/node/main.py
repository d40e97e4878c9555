"""`tfquiver-node`: the cache process of one machine. Without --coordinator it is its own (embedded mode)."""

from __future__ import annotations

import gc

if __name__ == "__main__":
    # A trainer may be waiting, and nothing of what is made until it serves is garbage (`_collect_garbage`).
    gc.disable()

import asyncio
import contextlib
import dataclasses
import os
import resource
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from absl import flags, logging

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.log_files_and_lines import log_lines
from tfquiver.node_daemon_and_notes_in_directories import cluster_file
from tfquiver.node_daemon_and_notes_in_directories.directory import NODE_FILE, CacheDirectory
from tfquiver.roles_and_tokens import own_token
from tfquiver.service.common_to_servers import serving, slow_start
from tfquiver.service.common_to_servers.last_resort import LastResort, leave
from tfquiver.service.metrics import exposition, metrics_flag
from tfquiver.service.metrics import node_metrics as metrics
from tfquiver.service.metrics.instruments import TOLD_BY
from tfquiver.service.node import caches_on_this_disk, own_hosts, remembered_quota
from tfquiver.service.node import node as node_parts
from tfquiver.service.node.options import Options
from tfquiver.service.node.unix_socket_clients import silent_readers
from tfquiver.service.node.unix_socket_clients.reader_group import ReaderGroup
from tfquiver.service.tracing import exporting
from tfquiver.service.tracing.shard_spans import ShardSpans
from tfquiver.shard_owners_chunks_hash_prefixes import labels
from tfquiver.sizes_durations_amounts import sizes

FLAGS = flags.FLAGS
_STOP_S = 3.5
_LOOK_S = 1.0
_FIRST_READER_S = 2.0


def define_flags() -> None:
    flags.DEFINE_string("cache_dir", None, "Directory of the cache; one node's alone.", required=True)
    flags.DEFINE_string(
        "quota", "",
        "Most bytes stored, as 10GiB. 0: it keeps nothing. Empty: 80 % of what is free or ours. Not given: as the last "
        "node of --cache_dir that was given one.",
    )  # fmt: skip
    flags.DEFINE_string("hot", "256MiB", "Most bytes of decompressed shards kept in memory.")
    flags.DEFINE_enum("codec", "auto", ["auto", "raw", "zstd"], "How shards are stored; auto: zstd where it pays.")
    flags.DEFINE_string("coordinator", "", "host:port of the cluster's coordinator. Empty: this node is its own.")
    flags.DEFINE_integer(
        "port", None, "Port of the control service; 0: any free one. Unset and no --coordinator: none.", 0, 65535
    )
    flags.DEFINE_integer("data_port", 0, "Port of the data port; 0: any free one. Only with --coordinator.", 0, 65535)
    flags.DEFINE_string(
        "bind_host",
        "",
        "Address that the two ports listen on. Empty: localhost; [::] for a --coordinator elsewhere.",
    )
    flags.DEFINE_string(
        "advertise_host",
        "",
        "Host that peers use for this node. Empty: --bind_host; for [::] its own address.",
    )
    flags.DEFINE_string(
        "auth_token_file", "", "File whose first line is the token that this node shows. Callers must show one, too."
    )
    flags.DEFINE_bool("allow_unauthenticated", False, "Let callers of other machines in without a token.")
    flags.DEFINE_bool(
        "trust_peers_with_node_credential", False,
        "Do not hash what a peer sends that proves to hold this node's own token. Only where trainers do not hold it.",
    )  # fmt: skip
    flags.DEFINE_float("fetch_deadline_s", 120.0, "A shard that cannot be had for so long is given up.", 0.1, 86400.0)
    flags.DEFINE_float("coordinator_connect_s", 20.0, "The coordinator must answer so soon at the start.", 0.1, 3600.0)
    flags.DEFINE_float("coordinator_lost_s", 600.0, "Readers fail when it has been away so long.", 0.1, 86400.0)
    flags.DEFINE_float(
        "reader_silence_s", silent_readers.PATIENCE_S,
        "A reader that has said nothing for so long, as one whose process was stopped, is taken for gone: other "
        "readers get what it has not read.", 1.0, 86400.0,
    )  # fmt: skip
    flags.DEFINE_string("lease_ahead", "32MiB", "Most bytes leased and fetched beyond what a reader asked for.")
    flags.DEFINE_string("refill_bytes_per_s", "0", "Most bytes a second loaded that no reader waits for; 0: no limit.")
    flags.DEFINE_string(
        "labels", "", "What this node is and where it stands, as rack=r1,disk=nvme: placements choose nodes by labels."
    )
    flags.DEFINE_string(
        "move_bytes_per_s", "64MiB",
        "Most bytes a second taken over from other nodes when a data set's placement changes; 0: no limit.",
    )  # fmt: skip
    flags.DEFINE_string(
        "scan_share_bytes", "16GiB",
        "Other nodes help this one to scan a data set that has a name, one for so many bytes of it; 0: none does.",
    )  # fmt: skip
    flags.DEFINE_string(
        "reader_group", "", "Group whose members may read through this node, too, and change nothing. Empty: nobody's."
    )
    flags.DEFINE_float(
        "drain_s", 20.0,
        "How long, told to stop (SIGTERM), it may take to pass on what is under way before it ends; nothing is waited "
        "for that does not get on. Ends less than 5 s later: Kubernetes' terminationGracePeriodSeconds must be more.",
        0.0, 3600.0,
    )  # fmt: skip
    flags.DEFINE_integer("idle_exit_s", 0, "Leave when nobody has used this node for so long; 0: stay.", 0)
    log_lines.define()
    metrics_flag.define()
    exporting.define()
    flags.DEFINE_bool("die_with_parent", False, "Stop when the process that started this one ends.")
    validators: list[tuple[str, Callable[[str], bool], str]] = [
        ("cache_dir", bool, "must name a directory"),
        ("hot", sizes.is_size, "must be a size, as 256MiB"),
        ("lease_ahead", sizes.is_size, "must be a size, as 32MiB"),
        ("refill_bytes_per_s", sizes.is_size, "must be a size, as 50MiB"),
        ("move_bytes_per_s", sizes.is_size, "must be a size, as 64MiB"),
        ("scan_share_bytes", sizes.is_size, "must be a size, as 16GiB"),
        ("labels", _is_labels, "must be key=value pairs, as rack=r1,disk=nvme"),
        ("quota", lambda text: not text or sizes.is_size(text), "must be a size, as 10GiB"),
        ("coordinator", lambda text: not text or addresses.is_address(text), "must be host:port or unix:/path"),
    ]
    for flag, valid, message in validators:
        flags.register_validator(flag, valid, message)


def _is_labels(text: str) -> bool:
    try:
        labels.parse(text)
    except errors.InvalidArgumentError:
        return False
    return True


@contextlib.asynccontextmanager
async def _idle_exit(node: node_parts.Node, after_s: float, stop: asyncio.Event) -> AsyncIterator[None]:
    async def watch() -> None:
        loop = asyncio.get_running_loop()
        while (left_s := node.last_use_s + after_s - loop.time()) > 0 or node.busy:
            await asyncio.sleep(max(left_s, 0.1))
        logging.info("nobody has used this node for %g s: leaving", after_s)
        stop.set()

    task = asyncio.get_running_loop().create_task(watch()) if after_s else None
    try:
        yield
    finally:
        if task:
            task.cancel()


async def serve() -> None:
    """A disk or a store that hangs holds a thread, and with it the end of the process: then it ends as if killed."""
    if FLAGS.die_with_parent:
        serving.die_with_parent()
    stop = serving.stop_event()
    _raise_descriptor_limit()
    last_resort = LastResort()
    serving_on = asyncio.create_task(_serve(stop, last_resort))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([serving_on, stopped], return_when=asyncio.FIRST_COMPLETED)
    if stopped.done():
        if not last_resort.is_set:
            last_resort.within(_STOP_S)
        try:
            await asyncio.wait([serving_on])
        finally:
            last_resort.cancel()
    stopped.cancel()
    await serving_on


async def _serve(stop: asyncio.Event, last_resort: LastResort) -> None:
    with contextlib.ExitStack() as starting:
        starting.enter_context(slow_start.said(Path(FLAGS.cache_dir)))
        await _serve_from(starting, stop, last_resort)


async def _serve_from(starting: contextlib.ExitStack, stop: asyncio.Event, last_resort: LastResort) -> None:
    """`starting`: is closed when it serves."""
    try:
        directory = await asyncio.to_thread(CacheDirectory, Path(FLAGS.cache_dir))
    except errors.AlreadyRunningError as error:
        serving.announce("node", error=type(error).__name__, message=str(error))
        raise
    last_resort.let_go = directory.close
    try:
        try:
            await asyncio.to_thread(cluster_file.write, directory.path, FLAGS.coordinator)
        except errors.TfquiverError as error:  # a disk that is full, say, where entries will make room
            logging.warning("trainers may start a node of their own here while this one is down: %s", error)
        with exporting.shard_spans(FLAGS.trace_endpoint, FLAGS.trace_share, directory.node_id) as spans:
            await _serve_in(directory, starting, stop, last_resort, spans)
    finally:
        await asyncio.to_thread(directory.close)


async def _serve_in(
    directory: CacheDirectory,
    starting: contextlib.ExitStack,
    stop: asyncio.Event,
    last_resort: LastResort,
    spans: ShardSpans | None,
) -> None:
    options = dataclasses.replace(await _options(directory.path), spans=spans)
    node = await node_parts.Node.start(directory, options)
    try:
        await node.announce()
        if FLAGS.reader_group:
            group = ReaderGroup.of(FLAGS.reader_group)
            for path in (directory.path / NODE_FILE, directory.path / cluster_file.FILE):
                if path.exists():  # a node of its own is no cluster's
                    group.let_use(path)
        with exposition.exposed(
            FLAGS.metrics_address, "node", lambda: metrics.families(node.status()), TOLD_BY["node"]
        ) as where:
            starting.close()
            serving.announce(
                "node", node_id=directory.node_id, port=node.port, data_port=node.data_port, socket=node.socket,
                control=node.control, coordinator=node.coordinator, metrics=where,
            )  # fmt: skip
            _collect_garbage()
            async with (
                _idle_exit(node, FLAGS.idle_exit_s, stop),
                _holding(directory),
                _others_told_of(directory, options.token),
            ):
                await stop.wait()
                last_resort.within(FLAGS.drain_s + _STOP_S)
                await node.drain(FLAGS.drain_s)
                last_resort.within(_STOP_S)
    finally:
        await node.stop()


def _collect_garbage() -> None:
    """What there is by now stays: collections never look at it."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


@contextlib.asynccontextmanager
async def _holding(directory: CacheDirectory) -> AsyncIterator[None]:
    """Leaves when somebody has deleted the directory: the next node there must not be taken for this one.

    It leaves at once, as if it were killed: a server that closes in good order removes its sockets by their names, and
    by then these may be the next one's.
    """

    async def watch() -> None:
        while not (lost := await asyncio.to_thread(directory.what_is_lost)):
            await asyncio.sleep(_LOOK_S)
        logging.error("%s: somebody has deleted %s: this node leaves", directory.path, lost)
        leave(1)

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()


@contextlib.asynccontextmanager
async def _others_told_of(directory: CacheDirectory, token: str) -> AsyncIterator[None]:
    """The log says, once, that not all caches of this user find room on its disk."""

    async def look() -> None:
        await asyncio.sleep(_FIRST_READER_S)  # who waits for this node comes first
        if said := await caches_on_this_disk.warning(directory.path, token):
            logging.warning("%s", said)

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()


async def _options(directory: Path) -> Options:
    token = await asyncio.to_thread(own_token.read_token, FLAGS.auth_token_file)
    if FLAGS.coordinator or FLAGS.port is not None:  # first: the way to the coordinator may have to be waited for
        bind_host = own_hosts.bound(FLAGS.bind_host, FLAGS.coordinator)
        serving.check_exposure(bind_host, "--auth_token_file", bool(token), FLAGS.allow_unauthenticated)
    hosts = await own_hosts.choose(
        FLAGS.bind_host, FLAGS.advertise_host, FLAGS.coordinator, deadline_s=FLAGS.coordinator_connect_s
    )
    quota = await asyncio.to_thread(remembered_quota.chosen, directory, FLAGS.quota, FLAGS["quota"].present > 0)
    return Options(
        quota_bytes=quota, hot_bytes=sizes.parse_bytes(FLAGS.hot), codec=FLAGS.codec,
        coordinator=FLAGS.coordinator, control_port=0 if FLAGS.port is None and FLAGS.coordinator else FLAGS.port,
        data_port=FLAGS.data_port, bind_host=hosts.bind, advertise_host=hosts.advertise, token=token,
        fetch_deadline_s=FLAGS.fetch_deadline_s, connect_s=FLAGS.coordinator_connect_s,
        lost_s=FLAGS.coordinator_lost_s, ahead_bytes=sizes.parse_bytes(FLAGS.lease_ahead),
        refill_bytes_per_s=sizes.parse_bytes(FLAGS.refill_bytes_per_s),
        incarnation=uuid.uuid4().hex,
        labels=labels.parse(FLAGS.labels), move_bytes_per_s=sizes.parse_bytes(FLAGS.move_bytes_per_s),
        reader_group=ReaderGroup.of(FLAGS.reader_group) if FLAGS.reader_group else None,
        scan_share_bytes=sizes.parse_bytes(FLAGS.scan_share_bytes),
        reader_silence_s=FLAGS.reader_silence_s,
        trust_peers=FLAGS.trust_peers_with_node_credential,
    )  # fmt: skip


def _raise_descriptor_limit() -> None:
    """A shard that is ready holds a descriptor; the usual soft limit of 1024 is a habit, not a need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run() -> None:
    define_flags()
    os.umask(0o077)
    serving.run_server(serve, __doc__ or "")


if __name__ == "__main__":
    run()
