"""Jobs that read by leases, while they are probed, held to budgets and cached in another way: who waits is woken, and
who is asked for by nobody else comes to the end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.unit.cached import Cached
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.chunk_rotation.rotations import ChunkPlan
from tfquiver.service.coordinator.sessions.decisions import SessionLimits
from tfquiver.service.coordinator.sessions.lease import LeaseState
from tfquiver.service.coordinator.sessions.readers import ReaderRequest
from tfquiver.service.coordinator.sessions.session_book import Record
from tfquiver.service.coordinator.sessions.sessions import Sessions

MODES = {
    "uniform": types_pb2.CACHE_MODE_UNIFORM, "none": types_pb2.CACHE_MODE_NONE, "lru": types_pb2.CACHE_MODE_LRU,
}  # fmt: skip
_WAIT_MS = 1000


@dataclass
class JobReader:
    """One reader of one job, and what its node knows: shards that are fetched, emitted, and acknowledged late."""

    job: str
    name: str
    session_id: str
    sequence: int = 0
    coming: list[tuple[int, bool]] = field(default_factory=list)  # leased, and not here yet; whether past the cache
    here: list[int] = field(default_factory=list)
    emitted: list[int] = field(default_factory=list)
    again_at: float = 0.0  # of one that waits
    held_back: bool = False  # by its budget: it asks again in time by itself
    ended: bool = False


class ReadingWorld:
    """As coordinator and nodes do it, call by call; no call is lost, and none waits."""

    def __init__(self, shards: int, seed: int, jobs: int, readers: int, rotation: str) -> None:
        self.rng, self.clock = random.Random(seed), ManualClock()
        self.shards = shards
        self.cached = Cached([self.rng.randrange(16, 116) for _ in range(shards)], self.clock, rotation)
        self.budgets, self.probed = Budgets(self.clock), set[tuple[str, bytes]]()
        self.log: list[Record] = []
        self._may_load = self._obeyed_at = 0.0  # bytes, and when that was so
        self.asleep: dict[str, set[str]] = {}  # by session: readers who wait
        self.sessions = Sessions(
            self.clock, self.rng, self.log.append, self.cached.view, self._wake,
            SessionLimits(idle_s=1e9, ended_s=1e9), self.budgets, self.probed,
        )  # fmt: skip
        self.cached.begin(self.sessions, self.budgets, lambda _: self._wake_all())
        self.readers = [
            self._open(f"job {job}", number) for job in range(jobs) for number in range(readers)
        ]  # fmt: skip
        self.tick(0.0)

    def _open(self, job: str, number: int) -> JobReader:
        digest_id = self.cached.digest_id
        session_id = self.sessions.admission.ticket(job, f"{job}:p", 0, False, digest_id, self.shards, job)
        assert session_id
        reader = JobReader(job, f"{job} {number}", session_id)
        self.sessions.readers.open(session_id, ReaderRequest(reader.name, "n", "1"), [], True)
        return reader

    # What the coordinator does by itself.

    def tick(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.sessions.expire()
        if self.budgets.in_use:
            self.budgets.tick(self.sessions.jobs_of(), self.cached.caching.loaded_ahead)
        self.cached.time_passes()

    def probe(self, job: str, missing: bool) -> None:
        """One job of a data set at a time."""
        self.probed.clear()
        if missing:
            self.probed.add((job, self.cached.digest_id))

    def allocate(self, job: str, bytes_per_s: float) -> None:
        self.budgets.pins.allocate(job, bytes_per_s)

    def set_mode(self, mode: str, share: float) -> None:
        """`mode`: as a person says it; or a rotation, of so much of the data set."""
        setting, plan = types_pb2.CacheSetting(), None
        if mode in MODES:
            setting.mode = MODES[mode]
        elif mode:
            setting.CopyFrom(self.cached.rotating(mode, share))
            plan = ChunkPlan.of(self.cached.digest, setting)
        digest_id, caching = self.cached.digest_id, self.cached.caching
        caching.apply(log_pb2.CacheSet(digest_id=digest_id, setting=setting))
        caching.set(digest_id, plan)

    # What readers and nodes do.

    def obey(self, most: int) -> None:
        """As Cached.obey, within the rate that nodes are told; a last shard may go beyond it."""
        rate, now = self.budgets.told(self.cached.digest_id), self.clock.now()
        self._may_load = min(self._may_load + rate * (now - self._obeyed_at), rate)
        self._obeyed_at = now
        while most and (not rate or self._may_load > 0):
            loaded = self.cached.obey(1)
            self._may_load -= loaded
            most = most - 1 if loaded else 0

    def lease(self, reader: JobReader, n: int, max_bytes: int = 1 << 40) -> bool:
        """Whether it was answered with anything but WAIT. What it has emitted is acknowledged along with it."""
        if reader.ended:
            return False
        was_asleep = reader.name in self.asleep.get(reader.session_id, ())
        if reader.emitted:
            was_asleep = False  # it brings something
            self._acknowledge(reader)
        opened = self.sessions.readers.find(reader.session_id, reader.name)
        draining = not reader.coming and not reader.here
        result = self.sessions.readers.lease(
            reader.session_id, opened, reader.sequence + 1, n, max_bytes, draining, False
        )
        if result.state is LeaseState.WAIT:
            self.asleep.setdefault(reader.session_id, set()).add(reader.name)
        self.cached.look()  # may wake
        if result.state is LeaseState.WAIT:
            pause_s = self.budgets.pause_s(reader.job)
            reader.again_at = self.clock.now() + (_WAIT_MS / 1000 if pause_s is None else pause_s)
            reader.held_back = self.budgets.left_bytes(reader.job) is not None
            return False
        in_time = reader.held_back or self.clock.now() >= reader.again_at
        assert not was_asleep or in_time, f"{reader.name} waited for what it could have had, and was not woken"
        self.asleep.get(reader.session_id, set()).discard(reader.name)
        reader.sequence += 1
        reader.ended = result.state is LeaseState.END
        reader.coming += [(shard, result.bypass) for shard in result.shards]
        return True

    def arrive(self, reader: JobReader, n: int) -> None:
        """What was leased comes, and is kept where it is to be."""
        came, reader.coming = reader.coming[:n], reader.coming[n:]
        reader.here += [shard for shard, _ in came]
        mode = self.cached.caching.placement.setting(self.cached.digest_id).mode
        keeps = self.cached.caching.rotations.keeps
        kept = [shard for shard, bypass in came if not bypass and keeps(self.cached.digest_id, shard)]
        if kept and mode != types_pb2.CACHE_MODE_NONE:
            self.cached.hold(kept)

    def emit(self, reader: JobReader, n: int) -> None:
        reader.emitted += reader.here[:n]
        reader.here = reader.here[n:]

    def acknowledge(self, reader: JobReader) -> None:
        if reader.emitted:
            self._acknowledge(reader)

    def _acknowledge(self, reader: JobReader) -> None:
        self.sessions.readers.ack(reader.session_id, reader.name, reader.emitted)
        reader.emitted = []
        self.cached.look()

    def leave(self, reader: JobReader) -> None:
        """It is gone, and what it had not acknowledged is read again; another one takes its place."""
        assert self.sessions.readers.close(reader.session_id, reader.name, False) == self.cached.digest_id
        self.cached.look()
        self.asleep.get(reader.session_id, set()).discard(reader.name)
        reader.coming, reader.here, reader.emitted, reader.sequence, reader.ended = [], [], [], 0, False
        self.sessions.readers.open(reader.session_id, ReaderRequest(reader.name, "n", "1"), [], True)

    def _wake(self, session_id: str) -> None:
        self.asleep.pop(session_id, None)

    def _wake_all(self) -> None:
        self.asleep.clear()

    # To the end.

    def _awake(self) -> Iterator[JobReader]:
        """Those whose node asks now: not asleep, or for so long that they ask again."""
        for reader in self.readers:
            asleep = reader.name in self.asleep.get(reader.session_id, ())
            if not asleep or reader.again_at <= self.clock.now():
                yield reader

    def finish(self, most_turns: int) -> None:
        """Everybody does what is to be done from now on. Raises AssertionError where somebody does not come to an
        end."""
        for _ in range(most_turns):
            for reader in list(self._awake()):
                self.lease(reader, 4)
            for reader in self.readers:
                self.arrive(reader, 4)
                self.emit(reader, 4)
                if self.rng.random() < 0.5:
                    self.acknowledge(reader)
            self.obey(2)
            self.tick(0.25)
            if all(reader.ended for reader in self.readers):
                return
        raise AssertionError("; ".join(f"{one.name} {self._told(one)}" for one in self.readers if not one.ended))

    def _told(self, reader: JobReader) -> str:
        session = self.sessions.session(reader.session_id)
        pending = session.sampler.pending if session.sampler else "no sampler"
        return f"{session.acked_shards} of {session.shards} acked, {session.leased_shards} leased, pending: {pending}"
