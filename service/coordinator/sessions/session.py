"""One session: one epoch of one job over one data set. Who reads, who holds which shard, what has been acked.

Pure. `admission`, `readers` and `sessions` decide and journal; the methods here that are named for a record perform it,
when it is decided and when the log is read again. Invariants, at every moment:

* a shard is in exactly one of: acked, leased to one reader, pending (I-6); of a session of draws (`drawn`) all that is
  said of shards here is said of draws;
* only a reader that leaves, or is lost, gives a shard back (I-7);
* once `ended`, nothing is leased any more; what is neither acked nor held by a reader then is the shortfall (I-8),
  which readers that come late may still be given: the session is `reopened` then, and has ended all the same.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards, drawn_shards
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import Sampler
from tfquiver.service.coordinator.sessions.bitmap import Bitmap
from tfquiver.service.coordinator.sessions.lease import LeaseResult

MAX_LABELS = 1000


class DatasetView(Protocol):
    """What sessions see of a data set."""

    @property
    def resident(self) -> bytearray:
        """A byte a shard: 1 when some node holds it. Changes are told with Sessions.residency_changed."""

    @property
    def lengths(self) -> Sequence[int] | npt.NDArray[np.uint64]:
        """Raw bytes of each shard."""

    def shared(self, shard: int) -> bool:
        """Whether one that is fetched now becomes resident for all jobs of the data set, by turns."""

    def sampler(self, session: Session, rng: random.Random) -> Sampler | None:
        """For a session that begins, or goes on with what it has pending. None: not yet; it waits."""


@dataclass(slots=True, eq=False)
class Reader:
    """One opening of a reader: when it opens again, it is another object."""

    reader_id: str
    node_id: str
    incarnation: str
    label: str
    leases: set[int] = field(default_factory=set)
    draining: bool = False
    in_turn: bool = False  # told END when nothing is pending, whatever others hold
    leases_unknown: bool = False  # known from the log only: it has not said yet what it holds
    again: bool = False  # it had opened before: what it was told then, END perhaps, is not known here
    deadline: float | None = None  # when it counts as lost unless it, or its node, is heard of
    sequence: int = 0  # of the last lease request that was answered; 0: none yet
    reply: LeaseResult | None = None
    window_bytes: int = 0  # the most that it has asked for at a time
    acked: int = 0  # shards that were its own, as far as this process knows: for `progress` only


class Session:
    def __init__(self, created: log_pb2.SessionCreated, number: int, now: float) -> None:
        self.session_id = created.session_id
        self.session_key = created.session_key
        self.digest_id = created.digest_id
        self.job = created.job
        self.epoch = created.epoch
        self.shards = created.shards
        self.seed = created.seed
        self.own_reader_id = created.own_reader_id
        self.homogeneous, self.order = created.homogeneous, created.order
        self.drawn = created.drawn  # as a message; without draws: each shard once
        self.number = number  # in order of creation
        self.counters = log_pb2.Counters()
        self.counters.CopyFrom(created.counters)
        self.acked = Bitmap.from_compressed(created.done_bitmap, created.shards)
        self.readers: dict[str, Reader] = {}
        self.labels = set(created.labels)
        self.ended = False
        self.settled_acked: int | None = None  # set when ended and without readers; `acked` is then empty
        self.presumed = set(created.presumed)  # acked, but buffers behind a reader that left may not have delivered it
        self.undelivered: frozenset[int] = frozenset()  # once settled: not acked, or presumed
        self.taken_over = False  # another session goes on with it
        self.alongside = created.alongside
        self.reopened = False  # a reader came late, after its end, and is given what it lacks
        self.acked_by_trainer = False  # since this process began
        self.asked_late: dict[str, float] = {}  # who asks for a late ticket, oldest first -> since when
        self.pays = self.job or self.session_key  # who is charged for what it reads from the store, and has a limit
        self.sampler: Sampler | None = None
        self.last_used = now
        self.used_up_ms = created.up_ms  # the last in the log; 0: not known
        self.restored_at: float | None = None  # the coordinator's restart, of one from before
        self.last_progress = now  # a lease, an ack, or a reader that came or went
        self._drawn_shards: DrawnShards | None = None
        self._holders: dict[int, Reader] = {}
        self._maybe_delivered: set[int] = set()

    @property
    def sampled(self) -> bool:
        """It is of draws."""
        return self.drawn.draws > 0

    @property
    def draws_known(self) -> bool:
        """Whether `draws_of` takes no time."""
        return self._drawn_shards is not None

    def know_draws(self, drawn: DrawnShards) -> None:
        """Those of `drawn`, decoded by the caller."""
        if self.settled_acked is None:
            self._drawn_shards = drawn

    def draws_of(self, shards: int) -> DrawnShards:  # kept until it has settled
        self._drawn_shards = self._drawn_shards or drawn_shards(self.drawn, shards)
        return self._drawn_shards

    def shards_of(self, handed_out: Sequence[int], shards: int) -> Sequence[int]:
        """The shards of the data set, which has so many, that were handed out under these numbers."""
        return self.draws_of(shards).shards[list(handed_out)].tolist() if self.sampled else handed_out

    @property
    def acked_shards(self) -> int:
        return self.acked.count if self.settled_acked is None else self.settled_acked

    @property
    def leased(self) -> Collection[int]:
        return self._holders.keys()

    @property
    def reads(self) -> tuple[str, bytes]:
        """Who `pays`, and its data set: by that it is measured and planned for."""
        return self.pays, self.digest_id

    @property
    def leased_shards(self) -> int:
        return len(self._holders)

    @property
    def complete(self) -> bool:
        return self.ended or self.acked_shards == self.shards

    @property
    def gives_out(self) -> bool:
        return self.reopened or not self.complete

    @property
    def waits_for_readers(self) -> bool:
        """A reader known from the log may hold shards that it has not told of yet."""
        return any(reader.leases_unknown for reader in self.readers.values())

    @property
    def unfinished(self) -> bool:
        """Some of it may not have been delivered to the trainer, and nobody else goes on with it."""
        if self.taken_over:
            return False
        return self.acked_shards - (0 if self.ended else len(self.presumed)) < self.shards

    def delivered(self) -> Bitmap:
        """What a client that goes on with it need not see again."""
        mask = np.ones(self.shards, np.bool_) if self.settled_acked is not None else self.acked.as_array()
        mask[list(self.undelivered or self.presumed)] = False
        return Bitmap.of(mask)

    @property
    def shortfall(self) -> int:
        if not self.ended or self.waits_for_readers or self.taken_over:
            return 0
        return self.shards - self.acked_shards - self.leased_shards

    @property
    def left_early(self) -> bool:
        """Readers were told END, and it goes on."""
        return self.counters.left_early > 0 and not self.ended

    @property
    def left_short(self) -> bool:
        """It has ended, and not all is known to be delivered: who holds the rest may be lost already, though nobody has
        noticed. A reader that comes late would be given it; and the trainer does not say itself what it has."""
        if self.alongside or self.taken_over or self.acked_by_trainer or self.settled_acked is not None:
            return False
        return self.ended and self.acked_shards < self.shards

    @property
    def may_fall_short(self) -> bool:
        """It does, or will unless some reader is heard of again. Older logs do not say what a settled one lacks."""
        if self.settled_acked is not None or self.acked_shards == self.shards:
            return False
        lost = any(reader.leases_unknown or reader.deadline is not None for reader in self.readers.values())
        return self.shortfall > 0 or lost

    @property
    def can_end(self) -> bool:
        """Every shard is acked, or held back by a reader that is draining."""
        if self.acked_shards + self.leased_shards < self.shards or self.waits_for_readers:
            return False
        return all(reader.draining for reader in self.readers.values() if reader.leases)

    @property
    def all_given(self) -> bool:
        """Nothing is pending: what is not acked is leased."""
        return not self.waits_for_readers and self.acked_shards + self.leased_shards == self.shards

    def still(self) -> Session:
        """As far as a snapshot needs it, as it is now: another thread may read it."""
        still = object.__new__(Session)
        vars(still).update(vars(self))  # of twenty thousand, on the loop: copy.copy takes four times as long
        still.readers, still.labels, still.sampler = dict(self.readers), set(self.labels), None
        if self.settled_acked is None:  # else these do not change any more
            still.acked, still.presumed = self.acked.still(), set(self.presumed)
            still.counters = log_pb2.Counters()
            still.counters.CopyFrom(self.counters)
        return still

    def draws(self) -> random.Random:
        """What its sampler draws with from here on. Jobs of a sweep share a seed, and so do a job's epochs: neither
        must read in the order of the other, for then no job finds anything that another has brought."""
        of = f"{self.seed} {self.epoch} {self.acked_shards} {self.pays}"
        return random.Random(int.from_bytes(hashlib.sha256(of.encode()).digest()[:8], "little"))

    def pending_mask(self) -> npt.NDArray[np.bool_]:
        """Shape [shards]: neither acked nor leased. For a new sampler."""
        mask = ~self.acked.as_array()
        mask[list(self._holders)] = False
        return mask

    def reader_opened(self, reader: Reader) -> None:
        """In place of its predecessor of the same id, if any, the leases of which it inherits."""
        before = self.readers.get(reader.reader_id)
        if before:
            reader.leases, reader.acked = before.leases, before.acked
            for shard in reader.leases:
                self._holders[shard] = reader
        self.readers[reader.reader_id] = reader
        if reader.label and len(self.labels) < MAX_LABELS:
            self.labels.add(reader.label)

    def hold(self, reader: Reader, held: Iterable[int], by_same_node: bool) -> list[int]:
        """Makes `held` the leases of `reader`; others that it had go back. Returns those it may not keep.

        `by_same_node`: who says it has been told of all that the reader did since it opened. What it does not hold has
        never reached the reader; another node may lack acknowledgements that were on their way through the first.
        """
        held = set(held)
        dropped = {shard for shard in held if not self._may_hold(reader, shard)}
        if not by_same_node:
            self._maybe_delivered |= reader.leases - held
        self._return(reader, reader.leases - held)
        kept = held - dropped
        if self.sampler:
            self.sampler.remove(kept - reader.leases)
        self._give(reader, kept)
        return sorted(dropped)

    def lease(
        self,
        reader: Reader,
        max_shards: int,
        max_bytes: int,
        view: DatasetView,
        wanted: Sequence[int] = (),
        store_bytes: float | None = None,
        bypass: bool = False,
    ) -> list[int]:
        """Takes pending shards for `reader`: those of `wanted`, all or none, or, when that is empty, any.

        Near the end readers get fewer at a time, so that they end together.

        Args:
          store_bytes: as in Sampler.take.
          bypass: all of them are read from the store.
        """
        assert self.sampler
        if wanted:
            free = (shard for shard in wanted if shard not in self._holders and shard not in self.acked)
            shards = list(dict.fromkeys(free))
            if store_bytes is not None and store_bytes <= 0 and (bypass or self._hits(shards, view) < len(shards)):
                return []
            self.sampler.remove(shards)
        else:
            fair_share = -(-self.sampler.pending // (2 * len(self.readers))) if len(self.readers) > 1 else max_shards
            if bypass and store_bytes is not None:
                if store_bytes <= 0:
                    return []
                max_bytes, store_bytes = min(max_bytes, max(1, int(store_bytes))), None
            shards = self.sampler.take(min(max_shards, fair_share), max_bytes, store_bytes)
        hits = 0 if bypass else self._hits(shards, view)
        self.counters.resident_leases += hits
        self.counters.missing_leases += len(shards) - hits
        again = self._maybe_delivered.intersection(shards)
        self.counters.reread += len(again)
        self._maybe_delivered -= again
        self._give(reader, shards)
        return shards

    def _hits(self, shards: Sequence[int], view: DatasetView) -> int:
        return sum(view.resident[shard] for shard in self.shards_of(shards, len(view.lengths)))

    def not_acked(self, shards: Iterable[int], presumed: bool) -> list[int]:
        if self.settled_acked is not None:
            return []
        if presumed or not self.presumed:
            return self.acked.lacking(shards)
        return [s for s in shards if s not in self.acked or s in self.presumed]

    def shards_acked(self, shards: Iterable[int], presumed: bool) -> None:
        fresh = self.acked.add_all(shards)
        if presumed:
            self.presumed.update(fresh)
        else:
            self.presumed.difference_update(shards)
        # Read from the log again, nobody holds anything; who reads alone has acked it.
        alone = next(iter(self.readers.values())) if len(self.readers) == 1 else None
        for shard in fresh:
            holder = self._holders.pop(shard, None)
            if holder:
                holder.leases.discard(shard)
            if by := holder or alone:
                by.acked += 1
        if self.sampler:
            self.sampler.remove(fresh)
        if self.ended and not self.readers:
            self._settle()

    def reader_gone(self, reader_id: str) -> None:
        reader = self.readers.pop(reader_id, None)
        if reader:
            self._maybe_delivered |= reader.leases
            self._return(reader, set(reader.leases))
        if not self.readers:
            self._holders.clear()  # nothing is in it, but it keeps the room of all that was leased at one time
            self.drop_sampler()
            if self.ended:
                self._settle()

    def session_ended(self) -> None:
        self.ended, self.reopened = True, False
        self.drop_sampler()
        if not self.readers:
            self._settle()

    def session_reopened(self) -> None:
        self.reopened = True

    def drop_sampler(self) -> None:
        """It is made again when somebody reads on."""
        if self.sampler:
            self.sampler.close()
        self.sampler = None

    def take_over(self) -> None:
        """Ends it for its readers: another session goes on with it."""
        self.readers.clear()
        self._holders.clear()
        self.session_ended()
        self.settle(self.acked_shards, (), ())
        self.taken_over = True

    def settle(self, acked: int, labels: Iterable[str], undelivered: Iterable[int]) -> None:
        """As a snapshot remembers it. Of what was acked only the number is kept: nobody may be given anything."""
        self.ended, self.reopened = True, False
        self.settled_acked = acked
        self.undelivered = frozenset(undelivered)
        self.labels.update(labels)
        self.acked = Bitmap(0)
        self._drawn_shards = None
        self.presumed.clear()

    def _settle(self) -> None:
        # A trainer that acknowledges by itself may still do so.
        if self.settled_acked is None and self.acked.count == self.shards:
            self.settle(self.acked.count, (), self.presumed)
            self._maybe_delivered.clear()

    def _may_hold(self, reader: Reader, shard: int) -> bool:
        if self.settled_acked is not None or shard in self.acked:
            return False
        return self._holders.get(shard, reader) is reader

    def _give(self, reader: Reader, shards: Iterable[int]) -> None:
        reader.leases.update(shards)
        for shard in shards:
            self._holders[shard] = reader

    def _return(self, reader: Reader, shards: set[int]) -> None:
        reader.leases = reader.leases - shards
        for shard in shards:
            del self._holders[shard]
        if self.sampler:
            self.sampler.give_back(shards)
