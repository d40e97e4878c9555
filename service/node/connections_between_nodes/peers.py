"""Other nodes, as sources of the shards they own and as places to put them."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.log_files_and_lines.logs import about
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.bodies_sent_between_nodes.peer_body import DamagedBodyError, WrongBodyError
from tfquiver.service.node.connections_between_nodes.lanes import Lane, Pools, lane_of
from tfquiver.service.node.connections_between_nodes.peer_connection import (
    LyingPeerError,
    OlderPeerError,
    Outcome,
    PeerConnection,
    Want,
)
from tfquiver.service.node.connections_between_nodes.peer_standing import DISTRUST_S, UNREACHABLE_S, Standing
from tfquiver.service.node.coordinator_link.of_members import OfMembers
from tfquiver.service.node.disk import entry
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.sealed_memory_of_checked_shards.sealed_memory import NoMemoryError
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.reach import ANYWHERE, STORE

_CONNECTIONS = 2  # to one peer, that get, of each lane
_BATCH_SHARDS = 32
_BATCH_BYTES = 32 << 20
_THREADS, _THREADS_STORE = 32, 16
_FULL_S = UNREACHABLE_S  # a peer that was full is not offered more for so long
_PUTS = Lane(store=False, depth=0)
_OLDER_S = 60.0  # then it may have been upgraded


@dataclass(slots=True)
class _Order:
    digest_id: bytes
    want: Want
    future: Future[ReadyShard]
    reach: int = ANYWHERE


@dataclass(slots=True)
class _Peer:
    """Guarded by PeerClient's lock."""

    node_id: str
    address: str
    pool: ThreadPoolExecutor
    orders: deque[_Order] = field(default_factory=deque)
    busy: int = 0  # threads that work the orders off
    idle: list[PeerConnection] = field(default_factory=list)
    retired: bool = False
    full_until_s: dict[tuple[bytes, ...], float] = field(default_factory=dict)  # by the accounts that had no room
    older_until_s: float = 0.0  # it is asked without a reach: whoever is older serves what it is asked for as its owner


class PeerClient:
    """`knows` and `get` belong to the loop; `put` blocks and may be called from any thread.

    Gets that may wait for others go lanes (lanes.py), with threads and connections of their own.

    Args:
      members: every live node, as the coordinator last said; another object whenever they are others.
      accounts: those that a shard with that hash goes to, by the settings of data sets, which all nodes are told: one
        that is full at a peer says nothing of others.
      trust: what comes from a peer that proves to hold `token` is not checked against its hash.
    """

    def __init__(
        self,
        node_id: str,
        members: Callable[[], Sequence[types_pb2.NodeInfo]],
        token: str,
        *,
        accounts: Callable[[bytes], Sequence[bytes]] = lambda hash: (),
        trust: bool = False,
        threads: int = _THREADS,
        threads_store: int = _THREADS_STORE,
    ) -> None:
        self._node_id, self._members, self._token, self._trust = node_id, members, token, trust
        self._accounts = accounts
        self._addresses = OfMembers(members, lambda live: {node.node_id: node.data_address for node in live})
        self.mismatches = 0
        """Bodies that were not what was asked for, damaged or another's, since start."""
        self._standings: dict[str, Standing] = {}  # by node id: a rogue that moves to another port stays one
        self._pools = Pools(threads, threads_store)
        self._lock = threading.Lock()
        self._peers: dict[str, dict[Lane, _Peer]] = {}  # by node id
        self._in_use: dict[PeerConnection, str] = {}  # node ids
        self._live: frozenset[str] = frozenset()
        self._closed = False

    def others(self) -> list[str] | None:
        """The live nodes but this one; None: the coordinator has not said yet, for this one is live, too."""
        live = [node.node_id for node in self._members()]
        return [node_id for node_id in live if node_id != self._node_id] if live else None

    def knows(self, node_id: str) -> bool:
        """Is it a live node other than this one?"""
        return self._address(node_id) is not None

    async def get(
        self, node_id: str, digest: Digest, ref: ShardRef, suspect: bool = False, reach: int = ANYWHERE
    ) -> ReadyShard:
        """The shard from the node that owns it, in sealed memory; the caller closes it.

        Several that are wanted at the same time travel together. Raises UnavailableError, DataLossError when what came
        was damaged or another (a `suspect` one is checked even where the peer is trusted), NoMemoryError; the caller
        goes on without that node. `reach` (data_frames): how far that node may go for it.
        """
        future: Future[ReadyShard] = Future()
        order = _Order(digest.digest_id, Want(ref.index, ref.hash, ref.length_bytes, suspect), future, reach)
        with self._lock:
            peer = self._usable(node_id, lane_of(ref, reach))
            peer.orders.append(order)
            if peer.busy < _CONNECTIONS:
                peer.busy += 1
                peer.pool.submit(self._work_off, peer)
        try:
            # Not shielded: what fails when nobody waits any more is no error of the loop.
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.cancel():  # it has been asked for
                future.add_done_callback(_close_outcome)
            raise

    async def get_of_its_own(self, node_id: str, digest: Digest, ref: ShardRef) -> ReadyShard:
        """As `get`, of what that node can have without asking others."""
        return await self.get(node_id, digest, ref, reach=STORE)

    def put(self, node_id: str, shard: VerifiedShard, insist: bool = False) -> None:
        """Gives a shard to a node, which owns it, or has room where the owner has none.

        Raises ResourceExhaustedError: it has no room, or had none a moment ago (unless the caller insists);
        NotFoundError: its chunk was ordered away; UnavailableError.
        """
        accounts = tuple(self._accounts(shard.hash))
        with self._lock:
            peer = self._usable(node_id, _PUTS)
            if not insist and peer.full_until_s.get(accounts, 0.0) > time.monotonic():
                raise errors.ResourceExhaustedError(f"node {node_id} had no room a moment ago")
        size = len(shard.raw)
        header = entry.Header(entry.RAW, size, size, shard.crc32c, shard.crc32c, shard.hash)
        try:
            self._with_connection(peer, lambda connection: connection.put(header, shard.raw))
        except errors.NeverFitsError:  # that shard, not the next
            raise
        except errors.ResourceExhaustedError:
            now = time.monotonic()
            with self._lock:
                full = {key: until_s for key, until_s in peer.full_until_s.items() if until_s > now}
                peer.full_until_s = {**full, accounts: now + _FULL_S}
            raise

    def members_changed(self) -> None:
        """Whoever waits for a node that is not live any more waits no longer: it may hang, or be cut off. Nor are
        connections to it kept: where pods come and go, most never come again under their name."""
        live = frozenset(node.node_id for node in self._members())
        if live == self._live:
            return
        self._live = live
        with self._lock:
            cut_off = [connection for connection, node_id in self._in_use.items() if node_id not in live]
            for gone in [node_id for node_id in self._peers if node_id not in live]:
                _retire(self._peers.pop(gone))
        for connection in cut_off:
            connection.shut_down()

    async def close(self) -> None:
        """Ends every transfer and waits for the threads."""
        with self._lock:
            self._closed = True
            connections = list(self._in_use)
        for connection in connections:
            connection.shut_down()
        await asyncio.to_thread(self._pools.shut_down)
        for lanes in self._peers.values():
            _retire(lanes)

    def _address(self, node_id: str) -> str | None:
        if node_id == self._node_id:
            return None
        return self._addresses().get(node_id) or None

    def _usable(self, node_id: str, lane: Lane) -> _Peer:
        address = self._address(node_id)
        lanes = self._peers.get(node_id)
        if lanes and next(iter(lanes.values())).address != address:  # gone, or come back elsewhere
            _retire(self._peers.pop(node_id))
        if address is None:
            raise errors.UnavailableError(f"node {node_id} is not among the live ones")
        if self._closed:
            raise errors.CancelledError_("the node is stopping")
        lanes = self._peers.setdefault(node_id, {})
        peer = lanes.get(lane)
        if peer is None:
            peer = lanes[lane] = _Peer(node_id, address, self._pools.of(lane))
        if why := self._standing(node_id).avoided(time.monotonic()):
            raise errors.UnavailableError(f"node {node_id} {why}")
        return peer

    def _standing(self, node_id: str) -> Standing:
        """Under the lock."""
        standing = self._standings.get(node_id)
        if standing is None:
            live = {node.node_id for node in self._members()}
            for gone in [other for other in self._standings if other not in live]:
                del self._standings[gone]
            standing = self._standings[node_id] = Standing()
        return standing

    def _work_off(self, peer: _Peer) -> None:
        while batch := self._next_batch(peer):
            open_orders = {order.want.shard: order for order in batch}
            trouble: errors.TfquiverError
            try:
                self._with_connection(peer, functools.partial(self._transfer, peer, batch[0], open_orders))
                continue
            except errors.TfquiverError as error:
                trouble = error
            except Exception as error:  # noqa: BLE001 - whoever waits has to be told, whatever it was
                logging.exception("peer %s", peer.node_id, extra=about(node=peer.node_id))
                trouble = errors.UnavailableError(f"node {peer.node_id}: {type(error).__name__}: {error}")
            with self._lock:  # those that queue behind would only wait for the same
                behind = [order for order in peer.orders if order.future.set_running_or_notify_cancel()]
                left = [*open_orders.values(), *behind]
                peer.orders.clear()
            for order in left:
                order.future.set_exception(trouble)

    def _next_batch(self, peer: _Peer) -> list[_Order]:
        """Orders for one digest and reach, each shard once; an empty list ends the thread's work."""
        with self._lock:
            batch: list[_Order] = []
            shards: set[int] = set()
            size_bytes = 0
            while peer.orders and len(batch) < _BATCH_SHARDS and size_bytes < _BATCH_BYTES:
                order = peer.orders[0]
                if order.want.shard in shards:
                    break
                if batch and (order.digest_id, order.reach) != (batch[0].digest_id, batch[0].reach):
                    break
                peer.orders.popleft()
                if not order.future.set_running_or_notify_cancel():  # nobody waits for it any more
                    continue
                batch.append(order)
                shards.add(order.want.shard)
                size_bytes += order.want.length_bytes
                # Leave some to the other connection: two transfers side by side are faster than one.
                if len(batch) >= max(1, (len(peer.orders) + len(batch)) // _CONNECTIONS):
                    break
            if not batch:
                peer.busy -= 1
            return batch

    def _with_connection(self, peer: _Peer, use: Callable[[PeerConnection], None]) -> None:
        """On an idle connection, or a new one. Raises what `use` raises."""
        with self._lock:
            connection = peer.idle.pop() if peer.idle else None
            fresh = connection is None
        while True:
            try:
                if connection is None:
                    connection = PeerConnection(peer.node_id, peer.address, self._token, self._node_id, self._trust)
                self._hold(connection, peer.node_id)
                use(connection)
            except (LyingPeerError, NoMemoryError):
                self._let_go(peer, connection, broken=True)
                raise
            except OlderPeerError as error:
                self._let_go(peer, connection, broken=True)
                peer.older_until_s = time.monotonic() + _OLDER_S
                logging.info(
                    "%s: it is of an older version, and asked as that knows", error, extra=about(node=peer.node_id)
                )
                connection, fresh = None, True
            except errors.UnavailableError as error:
                self._let_go(peer, connection, broken=True)
                if fresh or self._address(peer.node_id) is None:
                    with self._lock:
                        self._standing(peer.node_id).unreachable(time.monotonic())
                    logging.warning("%s", error, extra=about(node=peer.node_id))
                    raise
                # It may have been closed since, by a peer that was restarted; and a network that was cut for a while
                # leaves it silent, though the peer is there again. Once more, with a new one.
                connection, fresh = None, True
            except BaseException:
                self._let_go(peer, connection, broken=False)
                raise
            else:
                self._let_go(peer, connection, broken=False)
                return

    def _hold(self, connection: PeerConnection, node_id: str) -> None:
        with self._lock:
            self._in_use[connection] = node_id
            closed = self._closed
        if closed:
            connection.shut_down()

    def _let_go(self, peer: _Peer, connection: PeerConnection | None, broken: bool) -> None:
        if connection is None:
            return
        with self._lock:
            self._in_use.pop(connection, None)
            if not broken and not self._closed and not peer.retired:
                peer.idle.append(connection)
                return
        connection.close()

    def _transfer(self, peer: _Peer, alike: _Order, open_orders: dict[int, _Order], connection: PeerConnection) -> None:
        """Settles and removes every order that gets an answer."""

        def on_item(want: Want, outcome: Outcome) -> None:
            self._judge(peer, outcome)
            future = open_orders.pop(want.shard).future
            if isinstance(outcome, ReadyShard):
                future.set_result(outcome)
            else:
                future.set_exception(outcome)

        wants = [order.want for order in open_orders.values()]
        reach = ANYWHERE if peer.older_until_s > time.monotonic() else alike.reach
        connection.get(alike.digest_id, wants, on_item, reach)

    def _judge(self, peer: _Peer, outcome: Outcome) -> None:
        with self._lock:
            standing, now_s = self._standing(peer.node_id), time.monotonic()
            match outcome:
                case ReadyShard():
                    standing.good()
                    return
                case WrongBodyError():
                    standing.wrong(now_s)
                case DamagedBodyError():
                    standing.damaged(now_s)
                case _:
                    return
            self.mismatches += 1
            avoided = standing.avoided(now_s)
        logging.error("%s%s", outcome, f"; it is left alone for {DISTRUST_S:g} s" if avoided else "")


def _retire(lanes: dict[Lane, _Peer]) -> None:
    for peer in lanes.values():
        peer.retired = True
        while peer.idle:
            peer.idle.pop().close()


def _close_outcome(future: Future[ReadyShard]) -> None:
    if future.exception() is None:
        future.result().close()
