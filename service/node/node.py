"""A whole node, wired: disk, sources, ports, the line to the coordinator (or a coordinator of its own), the socket."""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING

from absl import logging

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.node_daemon_and_notes_in_directories.directory import CacheDirectory
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, node_pb2, types_pb2
from tfquiver.service.node import listening, named
from tfquiver.service.node.bodies_sent_between_nodes.incoming import Incoming
from tfquiver.service.node.connections_between_nodes.data_port import DataPort
from tfquiver.service.node.connections_between_nodes.peers import PeerClient
from tfquiver.service.node.connections_between_nodes.reachable import Reach
from tfquiver.service.node.coordinator_link.coordinator_link import CoordinatorLink, CoordinatorPatience
from tfquiver.service.node.coordinator_link.inventory_reports import InventoryReports
from tfquiver.service.node.coordinator_orders.chunk_orders import ChunkOrders, OtherNodes
from tfquiver.service.node.counters.kept_totals import KeptTotals
from tfquiver.service.node.counters.totals_file import Totals
from tfquiver.service.node.dataset_scans import file_tables
from tfquiver.service.node.dataset_scans.first_use import DatasetScans
from tfquiver.service.node.dataset_scans.scan import Scanner
from tfquiver.service.node.derived_shards.derived_shards import DerivedShards
from tfquiver.service.node.digests_kept_here.digest_cache import DigestCache
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk.free_room import Room
from tfquiver.service.node.grpc_calls_warm_clear.clear import clear
from tfquiver.service.node.grpc_calls_warm_clear.servicer import NodeServicer
from tfquiver.service.node.grpc_calls_warm_clear.warming import Warming
from tfquiver.service.node.moving_shards.moves import Moves
from tfquiver.service.node.options import Options
from tfquiver.service.node.placing_at_owners_and_writing.known_places import KnownPlaces
from tfquiver.service.node.placing_at_owners_and_writing.placer import Placer
from tfquiver.service.node.reader_sessions.reader_session import ReaderLimits
from tfquiver.service.node.reading_the_object_store.client_stores import ClientStores
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.service.node.reading_the_object_store.named_access import NamedAccess
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Fetcher
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.service.node.shared_batches import spill_files
from tfquiver.service.node.shared_batches.streams import Streams
from tfquiver.service.node.shutdown import draining
from tfquiver.service.node.unix_socket_clients.reader_group import ReaderGroup
from tfquiver.service.node.unix_socket_clients.session_server import SessionServer
from tfquiver.version import VERSION

if TYPE_CHECKING:
    from tfquiver.service.coordinator.server import CoordinatorServer

_STORE_DEADLINE_S = 20.0  # of one attempt; the session makes several
_READERS_STOP_S = 1.5
_MOST_WORKS = 128
_CALLS_STOP_S = 0.5
_COORDINATOR_SILENT_S = 15.0  # then this node is not ready; its readers wait much longer
_ANNOUNCING_BYTES = 1 << 20
_DIGESTS_SHARE = 64  # digests take at most one part of the quota in so many


def _hot_shards() -> int:
    """A quarter of the descriptors; readers, peers and the store need the others."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4


class Node:
    """`start` it, `stop` it; both once, on one loop."""

    def __init__(self, directory: CacheDirectory, options: Options) -> None:
        self._directory, self._options = directory, options
        self._loop = asyncio.get_running_loop()
        self._undo: list[Callable[[], Awaitable[object]]] = []
        self._asked_s = self._loop.time()
        self._began_s = int(time.time())
        self.socket = str(directory.sockets / "reader.sock")
        self.control = f"unix:{directory.sockets / 'control.sock'}"
        self._own_coordinator = f"unix:{directory.sockets / 'coordinator.sock'}"
        self.coordinator = options.coordinator or self._own_coordinator
        if options.reader_group and not options.coordinator:
            self.coordinator = f"unix:{directory.sockets / 'readers.sock'}"  # where nobody is an admin
        self.port = self.data_port = 0
        self._peers_served: Callable[[], int] = int  # connections of peers that wait for something
        self._data_address = ""
        self._peer_client: PeerClient | None = None
        self._reaching = Reach(directory.node_id, options.token, random.Random())
        self._room = Room(directory.path, lambda: self._disk.used_bytes, lambda: self._disk.evicted_bytes)
        self._is_reading = False  # readers may come

    @classmethod
    async def start(cls, directory: CacheDirectory, options: Options) -> Node:
        """Returns when readers can come. Raises typed errors naming flag or path; nothing is left running then."""
        node = cls(directory, options)
        try:
            await node._start()
        except BaseException:
            await node.stop()
            raise
        return node

    async def drain(self, deadline_s: float) -> None:
        """Before `stop`: leases go back, this node leaves, and what is on its way to a disk or a peer arrives, if it
        does within `deadline_s` and without a stop. What is kept here stays here, for the node that comes next."""
        self._is_reading = False
        give_up_s = self._loop.time() + deadline_s
        await self._sessions.stop(min(_READERS_STOP_S, deadline_s))
        await self._link.leave()
        left_s = max(0.0, give_up_s - self._loop.time())
        if left := await draining.finished(lambda: self._source.landing + self._peers_served(), left_s):
            logging.warning("leaving while shards, or peers' questions, are unfinished: %d", left)

    async def stop(self) -> None:
        """In the opposite order of starting: readers first, so that their last acknowledgements find a coordinator."""
        self._is_reading = False
        while self._undo:
            undo = self._undo.pop()
            try:
                await undo()
            except errors.TfquiverError as error:
                logging.error("stopping: %s", error)

    async def announce(self) -> None:
        """From now on others find this node. Raises the typed error of a failed write.

        On a disk that others have filled entries make room for it: they are of no use in a node that nobody finds.
        """
        where = {"socket": self.socket, "control": self.control, "coordinator": self.coordinator}
        try:
            await asyncio.to_thread(self._directory.announce, **where)
        except errors.ResourceExhaustedError as error:
            logging.warning("%s: entries make room", error)
            await asyncio.to_thread(self._disk.make_room, _ANNOUNCING_BYTES)
            await asyncio.to_thread(self._directory.announce, **where)

    @property
    def last_use_s(self) -> float:
        """When somebody last connected, left or called (loop time)."""
        return max(self._asked_s, self._sessions.last_use_s)

    @property
    def busy(self) -> bool:
        return self._sessions.connections > 0 or self._scans.busy or self._helping.busy or self._named.tasks.busy

    async def _start(self) -> None:
        options, directory = self._options, self._directory
        own: CoordinatorServer | None = None
        if not options.coordinator:
            from tfquiver.service.coordinator.server import CoordinatorServer  # not of use to other nodes

            own = CoordinatorServer()
            readers = self.coordinator if options.reader_group else ""
            work_dir = await asyncio.to_thread(directory.made, "coordinator")
            await own.start(work_dir, self._own_coordinator, readers_address=readers)
            self._undo.append(own.stop)
        self._link = CoordinatorLink(
            options.coordinator or self._own_coordinator,
            options.token if options.coordinator else "",
            options.incarnation,
            lambda: self._info(self._room.now()),
            CoordinatorPatience(options.connect_s, options.lost_s),
            self._coordinator_is_new,
            self._coordinator_lost,
            lambda orders: self._orders.receive(orders),
            self._members_changed,
            lambda: self._orders.was_away(),
        )
        if own:
            self._link.coordinator_is_here(own.calls_here())
        self._undo.append(self._link.close)
        self._link.on_places = self._places_told
        self._known = known = KnownPlaces(directory.node_id, self._link.members)
        self._callers = listening.authority(options, self._link.identify, self._loop.time)
        self._link.inventory = self._inventory = InventoryReports(lambda: self._disk.hashes(), self._wake)
        self._disk = await asyncio.to_thread(self._open_disk)
        self._digests = DigestCache(
            directory.path / "digests",
            self._link.digest_parts,
            self._disk.quota_bytes // _DIGESTS_SHARE,
            lambda size_bytes: self._disk.set_aside(size_bytes, "digests"),
        )
        self._undo.append(self._digests.close)
        await self._digests.start()
        meter = Meter()
        peers = self._peer_client = self._peers()
        self._link.digest_of = self._digests.get
        placer = Placer(directory.node_id, self._disk, self._link.members, peers.put if peers else None, known)
        self._undo.append(lambda: asyncio.to_thread(placer.here.close))
        named_access = NamedAccess()
        client_stores = ClientStores(named=named_access.of_digest, named_place=named_access.place_of)
        self._undo.append(lambda: asyncio.to_thread(client_stores.close))
        self._undo.append(lambda: asyncio.to_thread(named_access.close))
        self._derived = DerivedShards(placer.place, peers)
        fetcher = Fetcher(
            meter, placer.place, deadline_s=min(_STORE_DEADLINE_S, options.fetch_deadline_s / 2),
            store_for=client_stores.of_dataset, store_place=client_stores.place_of,
            compute=self._derived.computers.compute, elsewhere=self._derived.elsewhere.compute,
        )  # fmt: skip
        self._link.store_reads = lambda: fetcher.watch.reads().message(meter.store_bytes)
        self._hot = HotSet(options.hot_bytes, _hot_shards())
        self._source = ShardSource(directory.node_id, self._disk, self._hot, fetcher, peers, placer, known)
        self._undo.append(self._source.close)
        self._warming = Warming(
            directory.node_id, self._disk, self._source, self._link.members, self._link.missing, known, self._link.met,
            placer,
        )  # fmt: skip
        self._orders = ChunkOrders(
            self._info(), self._disk, self._source, self._digests.get, self._link.members,
            OtherNodes(self._link.missing, placer.others_have_room), options.refill_bytes_per_s, known_places=known,
        )  # fmt: skip
        self._undo.append(self._orders.close)
        self._orders.start()
        self._moves = Moves(
            directory.node_id, self._disk, self._source, known, self._link.holders, self._digests.get,
            self._link.members, options.move_bytes_per_s, self._orders.places_changed,
        )  # fmt: skip
        self._link.moves = self._moves.reports
        self._undo.append(self._moves.close)
        self._moves.start()
        incoming = Incoming(self._disk)
        removals, leftovers, others, late, came = await named.cleaners(
            directory.path, self._disk, self._source, self._digests, self._link, self._moves, self._warming, incoming,
            placer.here,
        )  # fmt: skip
        self._undo += [others.close, leftovers.close, removals.close, late.close, came.close]
        tables = await asyncio.to_thread(file_tables.of_directory, directory.path, self._disk.hanging)
        scanner = Scanner(meter, placer.place, tables)
        self._undo.append(scanner.close)
        self._scans = DatasetScans(self._link, self._digests, scanner.scan, client_stores.of_client, directory.node_id)
        self._undo.append(self._scans.stop)
        self._named, self._helping = named.wired(
            directory.node_id, self._link, self._digests, removals, late, self._scans, scanner, self._warm,
            named_access, fetcher, leftovers, options.token, options.scan_share_bytes if options.coordinator else 0,
            self._moves, came, self._disk,
        )  # fmt: skip
        self._undo.append(self._named.close)
        self._orders.names = self._named.names
        spilled = await spill_files.in_directory(directory.path, self._disk.quota_bytes, self._disk.set_aside)
        streams = Streams(spilled, self._source.on_disk, lambda: self._source.disk_waits_s)
        self._undo.append(streams.close)
        self._sessions = SessionServer(
            (directory.node_id, options.incarnation), self._link, self._link, self._source, self._digests.get,
            ReaderLimits(ahead_bytes=options.ahead_bytes, fetch_deadline_s=options.fetch_deadline_s),
            options.reader_group, self._link.reader_reports.heard, placer.keeper, options.spans, streams,
            options.reader_silence_s,
        )  # fmt: skip
        self._link.mounts, self._sessions.shown.on_change = self._sessions.shown.reports, self._link.wake
        self._link.on_heartbeat = self._sessions.heartbeat_goes
        self._totals = KeptTotals(directory.path, self._counted, self._source.on_disk)
        await self._totals.start()
        self._undo.append(self._totals.close)  # after the readers have been stopped
        if peers:
            await self._start_data_port(incoming, late.stays)
        await self._start_control(client_stores)
        if options.reader_group:
            self._let_in(options.reader_group)
        await self._room.bytes()  # the first heartbeat tells it: plans would be made with all of the quota
        await self._link.connect()
        self._sessions.start(directory.sockets / "reader.sock")
        self._is_reading = True
        self._undo.append(lambda: self._sessions.stop(_READERS_STOP_S))

    def _open_disk(self) -> DiskCache:
        return DiskCache(
            self._directory.path, self._options.quota_bytes, mode=self._options.codec, on_change=self._changed
        )

    def _peers(self) -> PeerClient | None:
        """None where there is no cluster."""
        if not self._options.coordinator:
            return None
        peers = PeerClient(
            self._directory.node_id, self._link.members, self._options.token, accounts=self._disk.accounts,
            trust=self._options.trust_peers,
        )  # fmt: skip
        self._undo.append(peers.close)
        return peers

    async def _start_data_port(self, incoming: Incoming, stays: Callable[[bytes], Awaitable[bool]]) -> None:
        options = self._options
        data_port = DataPort(
            self._directory.node_id, self._source, self._disk, self._digests.get, self._callers, incoming=incoming,
            own_token=options.token, stays=stays, fetch_deadline_s=options.fetch_deadline_s,
        )  # fmt: skip
        self.data_port = await data_port.start(options.bind_host, options.data_port)
        self._undo.append(data_port.stop)
        self._peers_served = lambda: data_port.busy
        self._data_address = addresses.joined(options.advertise_host, self.data_port)

    async def _start_control(self, client_stores: ClientStores) -> None:
        options = self._options
        servicer = NodeServicer(
            self.status, self._scans, client_stores, self._asked, self._warm, self._clear, self._reach, self._derived,
            self._helping.scan, self._room.bytes,
        )  # fmt: skip
        where = [self.control]
        if options.control_port is not None:
            where.append(addresses.joined(options.bind_host, options.control_port))
        server, ports = await listening.answered(servicer, self._callers, self._why_not_ready, where)
        if options.control_port is not None:
            self.port, self.control = ports[-1], addresses.joined(options.advertise_host, ports[-1])
        self._undo.append(lambda: server.stop(_CALLS_STOP_S))

    def _let_in(self, group: ReaderGroup) -> None:
        sockets = self._directory.sockets
        for directory in (self._directory.path, sockets):
            group.let_through(directory)
        group.let_use(sockets / "control.sock")
        if not self._options.coordinator:
            group.let_use(sockets / "readers.sock")

    def _changed(self, hash: bytes, held: bool) -> None:
        if held:
            self._inventory.add(hash)
        else:
            self._inventory.remove(hash)

    def _members_changed(self) -> None:
        if self._peer_client:
            self._peer_client.members_changed()
        self._orders.members_changed()

    def _places_told(self, version: int, places: Sequence[coordinator_pb2.DatasetPlaces]) -> None:
        self._moves.told(version, places)
        self._orders.places_changed()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(self._link.wake)

    def _why_not_ready(self) -> str:
        """Empty: readers and peers are served."""
        if not self._is_reading:
            return "it has not begun, or is stopping"
        if (silent_s := self._link.silent_s()) > _COORDINATOR_SILENT_S:
            return f"coordinator {self.coordinator} has not answered for {silent_s:.0f} s"
        return "reads of the cache directory hang" if self._source.disk_hangs else self._disk.trouble

    def _asked(self) -> None:
        self._asked_s = self._loop.time()

    async def _warm(self, digest_id: bytes) -> AsyncGenerator[node_pb2.WarmProgress, None]:
        async with aclosing(self._warming.warm(await self._digests.get(digest_id))) as progress:
            async for told in progress:
                yield told

    async def _reach(self, most: int) -> node_pb2.ReachPeersReply:
        return await self._reaching.look(self._link.members(), most)

    async def _clear(self) -> node_pb2.ClearReply:
        return await clear(self._disk, self._source, self._hot)

    def _counted(self) -> Totals:
        stats = self._source.stats()
        served_bytes = self._sessions.served_bytes
        return Totals(
            self._began_s, served_bytes, stats.hits, stats.misses, stats.store_bytes, stats.store_requests,
            stats.written_bytes, self._began_s,
        )  # fmt: skip

    def _info(self, disk_room_bytes: int | None = None) -> types_pb2.NodeInfo:
        return types_pb2.NodeInfo(
            node_id=self._directory.node_id, control_address=self.control, data_address=self._data_address,
            quota_bytes=self._disk.quota_bytes, used_bytes=self._disk.used_bytes, labels=self._options.labels,
            disk_room_bytes=disk_room_bytes,
        )  # fmt: skip

    def status(self) -> node_pb2.StatusReply:
        return node_pb2.StatusReply(
            node=self._info(),
            incarnation=self._options.incarnation,
            coordinator_address=self.coordinator,
            readers=self._sessions.readers,
            served_bytes=self._sessions.served_bytes,
            totals=node_pb2.Totals(**asdict(self._totals.now())),
            **asdict(self._source.stats()), **self._disk.refusals.ms_ago(),
            disk_hangs_ms=int(1000 * self._disk.hanging.for_s()),
            version=VERSION, now_ms=int(1000 * time.time()), cache_dir=self._directory.shown,
            works=[*self._scans.works(), *self._warming.works(), *self._helping.works()][:_MOST_WORKS],
        )  # fmt: skip

    def _coordinator_is_new(self) -> None:
        self._sessions.coordinator_is_new()

    def _coordinator_lost(self, for_s: float) -> None:
        fatal = for_s >= self._options.lost_s
        lost = errors.UnavailableError(f"coordinator {self.coordinator} has not answered for {for_s:.0f} s")
        self._sessions.tell_all(lost, fatal)
