"""The mount's process: the file system served until it is unmounted or told to stop. Needs pyfuse3 and trio."""

from __future__ import annotations

import functools
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyfuse3
import trio
from absl import logging

from tfquiver import errors
from tfquiver.data_sources_found_and_registered import store_access
from tfquiver.data_sources_found_and_registered.listed import accesses_of
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests.digest import Digest
from tfquiver.glob_patterns_and_file_trees.tree import FileTree
from tfquiver.mounting import mount_points, still_shared, taken_away
from tfquiver.mounting.known_again import KnownAgain
from tfquiver.mounting.named import check_shown, digest_of, named
from tfquiver.mounting.node_line import NodeLine
from tfquiver.mounting.open_shards import OpenShards
from tfquiver.mounting.operations import MOST_CALLS, Operations
from tfquiver.mounting.reading_ahead import kernel_read_ahead
from tfquiver.node_daemon_and_notes_in_directories import daemon, endpoints
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.stores.credentials.resolved import Access
from tfquiver.users_arguments_checked.option_groups import Progress

_MOST_OPEN = 16384
_OTHER_DESCRIPTORS = 256
_REGISTER_S = 30.0


@dataclass(frozen=True, slots=True)
class MountOptions:
    """`service`: the coordinator of a cluster, whose node in `cache_dir` runs already; "": the directory's own.

    `patience_s`: how long a read waits for the node before it is EIO.
    """

    sources: Sequence[str]
    mount_point: Path
    cache_dir: Path
    service: str
    token: str
    name: str
    format: str
    allow_other: bool
    patience_s: float
    ahead_bytes: int
    memory_bytes: int


class _Located:
    """Told where the node is, as the op would be (node_daemon_and_notes_in_directories/endpoints.py): now, and
    whenever it was found again."""

    def __init__(self) -> None:
        self.path = ""
        self.tell: Callable[[str], None] = lambda path: None

    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None:
        self.path = socket_path
        self.tell(socket_path)


def serve(options: MountOptions, progress: Progress, mounted: Callable[[types_pb2.Dataset, FileTree], None]) -> None:
    """Mounts, calls `mounted`, and returns when the mount is gone.

    Raises, before `mounted` is called: as mount_points.prepare; InvalidArgumentError (files that cannot be shown as
    such), NotFoundError (no such source), and what registering raises.
    """
    point, was_stale = mount_points.prepare(options.mount_point, options.cache_dir, options.allow_other)
    if was_stale:
        logging.warning("%s: a stale mount was there; it is taken away", point)
    asked = named(options.sources, options.name, options.format)
    located = _Located()
    with ExitStack() as stack:
        locate = endpoints.running_node if options.service else daemon.find_or_start
        name = endpoints.name_of(options.cache_dir)
        endpoint = endpoints.acquire(name, functools.partial(locate, options.cache_dir), located, options.cache_dir)
        stack.callback(endpoints.close_all)
        reaching = store_access.of(name, options.token)
        if asked.accesses:
            reaching.use(asked.accesses, endpoint)
        coordinator = options.service or endpoint.coordinator
        with Registrar(coordinator, endpoint.control, options.token, _REGISTER_S) as registrar:
            if options.service:
                registrar.check_member(endpoint.node_id, str(options.cache_dir))
            dataset = asked.register(registrar, progress, reaching.client_id if asked.accesses else "")
        digest = digest_of(coordinator, options.token, dataset)
        check_shown(digest)
        tree = FileTree(digest.files)
        accesses = asked.accesses if asked.accesses is not None else _own_accesses(digest)
        if accesses:
            reaching.use(accesses, endpoint)
            reaching.reads(dataset.digest_id)
        progress(dataset.size_bytes, dataset.size_bytes)  # who is told may be gone: then nothing is mounted any more
        try:
            known_again = KnownAgain(digest, asked.terms, functools.partial(_coordinator, options), options.token)
            trio.run(
                _serve, options, point, dataset, digest, tree, located, mounted, known_again,
                functools.partial(endpoints.is_told, name),
            )  # fmt: skip
        except BaseExceptionGroup as group:  # of the nursery, also of one
            if len(group.exceptions) == 1 and isinstance(error := group.exceptions[0], errors.TfquiverError):
                raise error from error.__cause__
            raise


def _own_accesses(digest: Digest) -> list[Access]:
    """Of what is registered already, as far as this process has any: the node may have others for it."""
    try:
        return accesses_of(file.uri for file in digest.files)
    except (errors.UnauthenticatedError, errors.UnavailableError, errors.InvalidArgumentError) as error:
        logging.warning("%s; the node reads %s with the data set's credentials, or its own", error, digest.name)
        return []


def _coordinator(options: MountOptions) -> str:
    """Where it is now. Raises NotFoundError."""
    return options.service or endpoints.running_node(options.cache_dir).coordinator


def _mount(operations: Operations, options: MountOptions, point: Path, name: str) -> None:
    chosen = {"default_permissions", "ro", "subtype=tfquiver", f"fsname={mount_points.fs_name(name)}"}
    if options.allow_other:
        chosen.add("allow_other")
    try:
        pyfuse3.init(operations, str(point), chosen)
    except RuntimeError as error:
        raise errors.PermissionError_(
            f"mount point {point}: {error}; what libfuse says of it is in the lines before (of log/mount.log of the "
            "cache directory, but for --foreground). Who is not root needs fusermount3 (apt-get install fuse3), and "
            "for --allow_other `user_allow_other` in /etc/fuse.conf"
        ) from error


async def _serve(
    options: MountOptions,
    point: Path,
    dataset: types_pb2.Dataset,
    digest: Digest,
    tree: FileTree,
    located: _Located,
    mounted: Callable[[types_pb2.Dataset, FileTree], None],
    known_again: KnownAgain,
    is_told: Callable[[str, trio.socket.SocketType], bool],
) -> None:
    try:
        covered = kernel_read_ahead.device(point)
    except OSError as error:  # files may have been scanned for hours since it was looked at
        raise errors.from_os_error(error, f"mount point {point}") from error
    line = NodeLine(digest, f"mount {point}", options.patience_s, known_again, is_told)
    line.found(located.path)
    located.tell = line.found
    descriptors = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_DESCRIPTORS) // 2
    shards = OpenShards(digest, line, max(16, min(descriptors, _MOST_OPEN)), options.memory_bytes)
    try:
        async with trio.open_nursery() as nursery:
            operations = Operations(digest, tree, line, shards, nursery, options.ahead_bytes)
            try:
                with mount_points.alone(point):
                    _mount(operations, options, point, dataset.name)
            except OSError as error:
                raise errors.from_os_error(error, f"mount point {point}") from error
            mount = None
            try:
                mount = mount_points.at(point)
                nursery.start_soon(kernel_read_ahead.widen, point, covered)
                nursery.start_soon(line.run)
                nursery.start_soon(shards.run)
                if options.token:
                    where = functools.partial(_coordinator, options)
                    nursery.start_soon(still_shared.watched, digest, line, where, options.token, known_again)
                if mount is not None:
                    nursery.start_soon(taken_away.waited_for, mount, lambda: operations.is_in_use, pyfuse3.terminate)
                await nursery.start(_stop_when_told)  # whoever is told that it is mounted may end it at once
                mounted(dataset, tree)
                await pyfuse3.main(max_tasks=MOST_CALLS)
            finally:
                pyfuse3.close(unmount=_is_at(point, mount))
            nursery.cancel_scope.cancel()
    finally:
        shards.close()


def _is_at(point: Path, mount: mount_points.Mount | None) -> bool:
    """Whether what is there to be taken away is this one. While something sees it elsewhere another one may have come
    in its place, and libfuse takes away whatever is there."""
    try:
        return mount is None or mount_points.at(point) == mount
    except (OSError, MemoryError):
        return True


async def _stop_when_told(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            pyfuse3.terminate()
            return
