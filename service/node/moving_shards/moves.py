"""Takes over what this node owns now and others hold, within a rate; then gives up what others own.

The old owner keeps a shard until the coordinator has heard from every new one that it stands there; until then readers
are sent to it. Nothing is fetched from the store for it: what no node holds any more is got when somebody reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock, SystemClock
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.common_to_servers.repeated import OwnTask
from tfquiver.service.node.coordinator_link.in_turn import InTurn
from tfquiver.service.node.disk import entry
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.moving_shards import move_plan
from tfquiver.service.node.moving_shards.look_again import LookAgain, lookups
from tfquiver.service.node.placing_at_owners_and_writing.known_places import KeptSet, KnownPlaces
from tfquiver.service.node.rate_limits.token_bucket import TokenBucket
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.shard_owners_chunks_hash_prefixes import prefixes
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes
from tfquiver.sizes_durations_amounts.amounts import many

# Two nodes that know different placements might each give up what they think the other keeps. By then each has told
# what it gave up under the one before.
GIVE_UP_AFTER_S = 5.0
MOST_REPORTS = 256
_PARALLEL = 4
_HERE_S = 0.5  # a list of all entries is used so long
_BURST_S = 0.25
_ASKED_AT_ONCE = 1 << 20  # prefixes times nodes
_ASKED_SHARDS = 16_384

Held = dict[str, npt.NDArray[np.bool_]]


class ChangedError(Exception):
    """The placement is another by now: what was looked at says nothing of it."""


class Moves:
    """Lives on one loop. `start` it, `close` it.

    Args:
      holders: asks the coordinator; raises TfquiverError.
      digests: raises TfquiverError when a digest cannot be had.
      members: every live node.
      bytes_per_s: of what is taken over; 0: no limit.
      on_moved: told when this node has nothing any more that others own.
    """

    def __init__(
        self,
        node_id: str,
        disk: DiskCache,
        source: ShardSource,
        known: KnownPlaces,
        holders: Callable[[pb.HoldersRequest], Awaitable[pb.HoldersReply]],
        digests: Callable[[bytes], Awaitable[Digest]],
        members: Callable[[], Sequence[types_pb2.NodeInfo]],
        bytes_per_s: float,
        on_moved: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        self._on_moved = on_moved
        self._node_id, self._disk, self._source, self._known = node_id, disk, source, known
        self._holders, self._digests, self._members = holders, digests, members
        self._clock = clock or SystemClock()
        self._bucket: TokenBucket | None = None
        if bytes_per_s:
            self._bucket = TokenBucket(bytes_per_s, bytes_per_s * _BURST_S, self._clock.now())
        self._reports, self._in_turn = dict[bytes, pb.MoveReport](), InTurn(MOST_REPORTS, MOST_REPORTS // 2)
        self._own: dict[bytes, move_plan.OwnPart] = {}
        self._here, self._here_until_s = prefixes.of_hashes([]), 0.0
        self._emptied: frozenset[bytes] = frozenset()
        self._coming, self._landed = Counter[bytes](), asyncio.Event()  # shards of each data set; one less
        self._settled: set[bytes] = set()  # of what is left, as the coordinator said when it was last asked
        self._moved: dict[bytes, int] = {}  # by data set: another number when something of it has moved anywhere
        self._look_again = LookAgain()
        self._looked_up = 0  # in one look at everything, as `lookups` counts
        self._give_up_from_s = 0.0
        self._changed = asyncio.Event()
        self._own_task = OwnTask(self._run)
        self._turn = 0

    def start(self) -> None:
        self._own_task.start()

    async def close(self) -> None:
        await self._own_task.close()

    def told(self, version: int, places: Sequence[pb.DatasetPlaces]) -> None:
        """With every orders."""
        if self._known.use(version, places):
            self._reports = {key: report for key, report in self._reports.items() if key in self._known.sets}
            self._give_up_from_s = self._clock.now() + GIVE_UP_AFTER_S
            self._changed.set()

    def emptied(self, digest_ids: Iterable[bytes]) -> None:
        """With every orders: each node gives up what it has of these. Who has done so takes nothing over from one that
        has not yet."""
        if (now := frozenset(digest_ids)) != self._emptied:
            self._emptied = now
            self._changed.set()

    async def still(self, digest_ids: Sequence[bytes]) -> None:
        """Returns when nothing of these is on its way here from another node."""
        while any(self._coming[one] for one in digest_ids):
            await self._landed.wait()

    def reports(self) -> list[pb.MoveReport]:
        """For the coordinator; what is about something first. Of more than can be told at once half are the first of
        these, and the others have their turn: a rule that was taken away ends when all nodes have told of it."""
        said = sorted(self._reports.items(), key=lambda one: -(one[1].to_come_shards + one[1].to_go_shards))
        return [self._reports[digest_id] for digest_id in self._in_turn.some([digest_id for digest_id, _ in said])]

    async def _run(self) -> None:
        pause_s: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
                self._look_again.told()
            self._changed.clear()
            try:
                busy = await self.look()
            except ChangedError:
                pause_s = self._look_again.told()
                continue
            except Exception:  # noqa: BLE001 - whatever it is, later moves must not wait for ever
                logging.exception("moves")
                busy = True
            sets, nodes = self._known.sets, len(self._members())
            several = any(kept.places.replicas > 1 for kept in sets.values())
            pause_s = self._look_again.after(busy, self._left(), several, self._looked_up, nodes) if sets else None

    async def look(self) -> bool:
        """Once, at everything: whether something was done, or will be soon. What others have to do first is looked at
        again later each time: at most as long again as it took them.

        Raises ChangedError.
        """
        told, busy, self._looked_up = self._known.told, False, 0
        self._here_until_s = 0.0  # what came in the look before is to go, perhaps, by what was told since
        self._own = {key: own for key, own in self._own.items() if key in told.sets}
        self._moved = {key: moved for key, moved in self._moved.items() if key in told.sets}
        for digest_id, kept in told.sets.items():
            if digest_id in self._emptied:
                continue
            try:
                digest = await self._digests(digest_id)
                await asyncio.to_thread(self._known.has, digest)
                self._check(told.version)
                if kept.moves:
                    busy = await self._move(digest, kept, told.version) or busy
                else:
                    self._reports.pop(digest_id, None)
            except errors.TfquiverError as error:
                every_n_seconds(
                    logging.WARNING, "moving data set %s: %s", 30, digest_id.hex(), error, extra=about(digest=digest_id)
                )
                busy = True
        return busy

    async def _move(self, digest: Digest, kept: KeptSet, version: int) -> bool:
        """`kept`: as that version says. Raises ChangedError when there is another one: what has been looked at then is
        told as no version's, least of all as that of the new one."""
        places = kept.places
        contents, plan = await asyncio.to_thread(self._look, digest, places)
        self._check(version)
        report = self._reports.setdefault(digest.digest_id, pb.MoveReport(digest_id=digest.digest_id))
        report.to_go_shards = len(plan.extra)
        self._settled.discard(digest.digest_id)
        came = await self._take_over_lacking(digest, places, version, contents, plan.lacking, report)
        gone = await self._give_up_extra(digest, places, version, contents, plan.extra, report)
        self._check(version)
        waits = bool(len(plan.extra)) and self._clock.now() < self._give_up_from_s
        busy = bool(came or gone or waits)
        # A disk in trouble may take the rest when it is well again.
        tried = report.to_come_shards == report.no_room_shards and not (report.to_come_shards and self._disk.trouble)
        again = report.places_version == version
        report.idle_looks = (report.idle_looks + 1 if again else 1) if tried and not busy else 0
        report.places_version = version  # from now on what is left is what is left of this one
        over = not report.to_go_shards or digest.digest_id in self._settled
        if over and self._known.has_moved(digest.digest_id, kept):
            self._on_moved()
        return busy

    def _check(self, version: int) -> None:
        if version != self._known.version:
            raise ChangedError

    def _left(self) -> Hashable:
        """What is to come or to go, and may yet; the same again: nothing of it has moved, here or anywhere."""
        return tuple(
            (key, report.to_come_shards, report.no_room_shards, report.to_go_shards, self._moved.get(key))
            for key, report in self._reports.items()
            if (report.to_come_shards or report.to_go_shards) and key not in self._settled
        )

    def _look(self, digest: Digest, places: Places) -> tuple[Prefixes, move_plan.MovePlan]:
        """For a thread."""
        contents = prefixes.of_rows(digest.hashes)
        own = self._own.get(digest.digest_id)
        if own is None or own.places != places:
            own = self._own[digest.digest_id] = move_plan.OwnPart(places, contents, self._node_id)
        if self._clock.now() >= self._here_until_s:  # of many data sets one after the other
            self._here, self._here_until_s = prefixes.of_hashes(self._disk.hashes()), self._clock.now() + _HERE_S
        return contents, own.plan(self._here)

    # What comes.

    async def _take_over_lacking(
        self,
        digest: Digest,
        places: Places,
        version: int,
        contents: Prefixes,
        lacking: move_plan.Shards,
        report: pb.MoveReport,
    ) -> int:
        """How many came."""
        found: list[tuple[int, str]] = []
        names = self._others()
        near = {name for name in names if not self._known.is_far(name)}
        async for some, held in self._held(digest.digest_id, version, contents, lacking, names):
            may = move_plan.may_come_from(places, contents[some], self._node_id, held)
            self._turn += 1
            sources = move_plan.sources(may, near, self._turn)
            found += [(int(shard), name) for shard, name in zip(some, sources, strict=False) if name]
        report.to_come_shards, report.no_room_shards = len(found), 0
        report.to_come_bytes = sum(int(digest.lengths[shard]) for shard, _ in found)
        came_before = report.came_bytes
        todo = iter(found)
        async with asyncio.TaskGroup() as group:
            for _ in range(_PARALLEL):
                group.create_task(self._take_over_on(digest, version, todo, report))
        self._check(version)
        return report.came_bytes - came_before

    async def _take_over_on(
        self, digest: Digest, version: int, todo: Iterator[tuple[int, str]], report: pb.MoveReport
    ) -> None:
        for shard, holder in todo:
            if self._known.version != version or digest.digest_id in self._emptied:
                return
            size_bytes = int(digest.lengths[shard])
            hash = digest.hashes[shard].tobytes()
            if hash not in self._disk:
                if not self._disk.wanted(hash):  # it stays where it is, and nobody waits for it
                    report.to_come_shards -= 1
                    report.to_come_bytes -= size_bytes
                    continue
                if not self._disk.has_room(hash, entry.disk_bytes(entry.HEADER_BYTES + size_bytes)):
                    report.no_room_shards += 1  # it would be sent in vain, again and again
                    continue
                report.idle_looks = 0  # who was told before that nothing moves any more hears of it at once
                if self._bucket and (wait_s := self._bucket.take(size_bytes, self._clock.now())):
                    await asyncio.sleep(wait_s)
                    if digest.digest_id in self._emptied:
                        return
                try:
                    with self._comes(digest.digest_id):
                        await self._source.take_over(digest, shard, holder)
                except errors.ResourceExhaustedError:
                    report.no_room_shards += 1
                    continue
                except errors.TfquiverError as error:
                    every_n_seconds(
                        logging.WARNING, "shard %d of data set %s stays at node %s for now: %s", 10,
                        shard, digest.name, holder, error,
                        extra=about(dataset=digest.name, digest=digest.digest_id, shard=int(shard), node=holder),
                    )  # fmt: skip
                    continue
                report.came_bytes += size_bytes
            report.to_come_shards -= 1
            report.to_come_bytes -= size_bytes

    @contextlib.contextmanager
    def _comes(self, digest_id: bytes) -> Iterator[None]:
        self._coming[digest_id] += 1
        try:
            yield
        finally:
            self._coming[digest_id] -= 1
            self._coming += Counter()  # without those that are over
            self._landed.set()
            self._landed = asyncio.Event()

    # What goes.

    async def _give_up_extra(
        self,
        digest: Digest,
        places: Places,
        version: int,
        contents: Prefixes,
        extra: move_plan.Shards,
        report: pb.MoveReport,
    ) -> int:
        """How many went."""
        if self._clock.now() < self._give_up_from_s or not places.groups:
            return 0
        gone, names = 0, sorted(places.members)
        async for some, held in self._held(digest.digest_id, version, contents, extra, names):
            spare = await asyncio.to_thread(self._spare, places, contents, some, held)
            self._check(version)
            hashes = [digest.hashes[shard].tobytes() for shard in spare]
            try:
                await self._source.give_up(hashes)
            except errors.ResourceExhaustedError as error:  # they are to go still, and nobody waits for it
                every_n_seconds(
                    logging.WARNING, "data set %s: %s", 60, digest.name, error,
                    extra=about(dataset=digest.name, digest=digest.digest_id),
                )  # fmt: skip
                break
            gone += len(hashes)
            report.gone_shards += len(hashes)
            report.to_go_shards -= min(len(hashes), report.to_go_shards)
        return gone

    def _spare(self, places: Places, contents: Prefixes, some: move_plan.Shards, held: Held) -> list[int]:
        """Those of these shards that their owners hold, and this node is no owner of by any data set. For a thread."""
        spare = some[move_plan.spare(places.home_owners(contents[some]), held)]
        return [int(shard) for shard in spare[~self._known.owned(contents[spare])]]

    # Who holds what.

    def _others(self) -> list[str]:
        return sorted(
            node.node_id for node in self._members() if node.quota_bytes > 0 and node.node_id != self._node_id
        )

    async def _held(
        self, digest_id: bytes, version: int, contents: Prefixes, shards: move_plan.Shards, names: Sequence[str]
    ) -> AsyncGenerator[tuple[move_plan.Shards, Held], None]:
        """Some of the shards at a time, and which of them each of these nodes holds."""
        if not names:
            return
        step = max(1, min(_ASKED_SHARDS, _ASKED_AT_ONCE // len(names)))
        for at in range(0, len(shards), step):
            some = shards[at : at + step]
            request = pb.HoldersRequest(
                prefixes=contents[some].tolist(), node_ids=names, places_version=version,
                digest_id=digest_id,
            )  # fmt: skip
            self._looked_up += lookups(len(some), len(names))
            reply = await self._holders(request)
            self._check(version)
            if reply.places_version != version or len(reply.held) != len(names):
                raise ChangedError
            self._moved[digest_id] = reply.moves
            if reply.settled:
                self._settled.add(digest_id)
            yield some, dict(zip(names, _masks(reply.held, len(some)), strict=True))


def _masks(held: Sequence[bytes], count: int) -> npt.NDArray[np.bool_]:
    """Shape [nodes, count]. Raises ProtocolError."""
    for bits in held:
        if len(bits) != (count + 7) // 8:
            raise errors.ProtocolError(f"held: {many(len(bits), 'byte')} of bits for {many(count, 'shard')}")
    rows = np.frombuffer(b"".join(held), np.uint8).reshape(len(held), -1)
    return np.unpackbits(rows, axis=1, bitorder="little", count=count).view(np.bool_)
