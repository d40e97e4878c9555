"""The state of one reader: events in, instructions out (pure; `reader_shell` carries them out).

A shard's way: leased (`_waiting`) -> fetched (`_ready`) -> sent (`_sent`) -> acknowledged -> acknowledgement durable.
Shards are sent in the order in which they become ready, as long as credit is positive. To an `ordered` reader they are
sent in the order in which they were leased: it has to have one before it can use the next, and give credit for it.
A reader that is `wanting` is leased what it wants, in its order, and the rest only when it has said all it wants.
Invariants:

* at most one Lease is under way, and one SendAcks or a Lease that takes acknowledgements along;
* bytes leased and not sent stay below credit + `ahead_bytes` (+ one lease), their number below `ahead_shards`;
* every shard that is leased and not durably acknowledged is in `held()`: what a new coordinator is told;
* End comes once, and only after every acknowledgement is durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.errors import ProtocolError, TfquiverError
from tfquiver.service.node.reader_sessions import instructions
from tfquiver.service.node.reader_sessions.acknowledgements import MAX_BY_ACK, MAX_BY_LEASE, Acknowledgements
from tfquiver.service.node.reader_sessions.instructions import Instruction, Lease, LeaseState
from tfquiver.service.node.reader_sessions.wanted_shard import FailedShards, RetriedFailures, WantedShard
from tfquiver.sizes_durations_amounts.amounts import many

MAX_LEASE_SHARDS = 1024
MAX_CREDIT_BYTES = 1 << 62  # at one time: what one frame may give
BAD_LIMIT = 5
WAIT_MS = 1000


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """How far one reader may run ahead of itself."""

    ahead_bytes: int = 32 << 20  # leased and fetched beyond credit; never more than half of the most credit it had
    ahead_shards: int = 64
    fetch_deadline_s: float = 120.0


@dataclass(slots=True)
class ReaderSession:
    """One reader's shards.

    Args:
      lengths_bytes: shape [shards], raw bytes of each shard of the data set.
      credit_bytes: what OPEN granted.
      name_of: says where a shard comes from (file and offset), for messages.
      ordered, wanting: see above.
    """

    lengths_bytes: npt.NDArray[np.uint64]
    credit_bytes: int
    name_of: Callable[[int], str] = "shard {}".format
    limits: ReaderLimits = field(default_factory=ReaderLimits)
    ordered: bool = False
    wanting: bool = False
    leaving: bool = False  # its acknowledgements are presumptions from here on: no Lease takes them along
    sent_frames: int = 0
    ended: bool = False
    _out: list[Instruction] = field(default_factory=list)
    _waiting: dict[int, WantedShard] = field(default_factory=dict)
    _ready: dict[int, str] = field(default_factory=dict)  # shard -> owner, in order of readiness
    _turn: deque[int] = field(default_factory=deque)  # ordered: leased, and not yet sent for the first time
    _wanted: deque[int] = field(default_factory=deque)
    _free: set[int] = field(default_factory=set)  # sent again after BAD: already paid for
    _sent: dict[int, str] = field(default_factory=dict)  # shard -> owner
    _bad: dict[int, int] = field(default_factory=dict)
    _retried: RetriedFailures = field(default_factory=RetriedFailures)
    _failed: FailedShards = field(default_factory=FailedShards)
    _acks: Acknowledgements = field(default_factory=Acknowledgements)
    _unsent_bytes: int = 0
    _ahead_bytes: int = 0
    _sequence: int = 0
    _lease: Lease | None = None
    _dry: bool = False  # the last Lease gave nothing
    _drained: bool = False
    _blocked: bool = False
    _paused: bool = False
    _finished: bool = False

    def __post_init__(self) -> None:
        self._ahead_bytes = min(self.limits.ahead_bytes, self.credit_bytes // 2)

    # Events. Each returns what is to be done, in order.

    def opened(self, held: Iterable[int], dropped: Iterable[int]) -> list[Instruction]:
        """The session is open; `held`: what the reader had before it reconnected, `dropped`: those it lost."""
        for shard in held:
            self._sent[self._checked(shard)] = ""
        self._drop(set(dropped))
        return self._advance()

    def reopening(self) -> list[int]:
        """Opening again with what is returned. No Lease may be under way then, or the coordinator would take back
        what it has just given without this reader knowing."""
        self._paused = True
        return self.held()

    def reopened(self, dropped: Iterable[int]) -> list[Instruction]:
        """The coordinator knows what is held; the Lease that was under way is asked again."""
        self._paused = False
        self._drop(set(dropped))
        if self._lease is not None:
            self._out.append(self._lease)
        return self._advance()

    def credit(self, credit_bytes: int) -> list[Instruction]:
        if self.credit_bytes + credit_bytes > MAX_CREDIT_BYTES:
            raise ProtocolError(f"CREDIT frames with more than {MAX_CREDIT_BYTES} bytes")
        self.credit_bytes += credit_bytes
        self._ahead_bytes = min(self.limits.ahead_bytes, max(self._ahead_bytes, self.credit_bytes // 2))
        return self._advance()

    def leased(self, state: LeaseState, leases: Iterable[tuple[int, str]], now_s: float) -> list[Instruction]:
        """The reply to the Lease under way: (shard, owner) of each."""
        wanted = self._lease.wanted if self._lease else ()
        if self._lease and self._lease.acked:
            self._acks.durable()
        self._lease = None
        leases = list(leases)
        if wanted and state is not LeaseState.WAIT:
            missing = set(wanted).difference((shard for shard, _ in leases), self._sent)
            if missing:  # its reader would wait for it for ever
                return self._give_up(ProtocolError(f"shard {min(missing)} is wanted, but its session has it no more"))
            for _ in wanted:
                self._wanted.popleft()
        self._dry = state is LeaseState.WAIT
        if state is LeaseState.END:
            self.ended = True
            self._out += [instructions.Discard(shard) for shard in (*self._waiting, *self._ready)]
            self._waiting.clear()
            self._ready.clear()
            self._failed.clear()
            self._flush()
        for shard, owner in leases:
            if shard in self._waiting or shard in self._sent or shard in self._ready:
                continue  # the coordinator repeats itself: it is ours already
            self._want(self._checked(shard), owner, now_s)
        if self._acks.to_flush:
            self._out.append(instructions.AcksWaiting())
        return self._advance()

    def lease_given_up(self) -> None:
        """Nobody waits for the Lease under way any more: what it was to acknowledge is to be flushed."""
        if self._lease and self._lease.acked:
            self._acks.take_back(self._lease.acked)
        self._lease = None

    def want(self, shards: Sequence[int]) -> list[Instruction]:
        """The reader wants these next; none: it has said all that it wants. It wants each shard once."""
        if not self.wanting:
            raise ProtocolError("WANT from a reader that did not say it would, or that had said it was done")
        if len(self._wanted) + len(shards) > len(self.lengths_bytes):
            raise ProtocolError(f"WANT frames with more shards than the data set's {len(self.lengths_bytes)}")
        self._wanted.extend(map(self._checked, shards))
        self.wanting = bool(shards)
        return self._advance()

    def fetched(self, shard: int) -> list[Instruction]:
        """The shard is ready to be sent."""
        if shard not in self._waiting:
            self._out.append(instructions.Discard(shard))
            return self._take()
        self._ready[shard] = self._waiting.pop(shard).owner
        if shard in self._free:  # the reader may have nothing else to emit, and so no credit to give, until it comes
            self._free.discard(shard)
            self.credit_bytes += int(self.lengths_bytes[shard])
            self._send_one(shard)
        return self._advance()

    def fetch_failed(self, shard: int, error: TfquiverError, now_s: float) -> list[Instruction]:
        """It is tried again, for as long as WantedShard says, or has failed, and the rest goes on."""
        wanted = self._waiting.get(shard)
        if wanted is None:
            return self._take()
        pause_s = wanted.failed(error, now_s, self.limits.fetch_deadline_s)
        if pause_s is not None:
            if self._retried.is_news(error, now_s):
                self._out.append(instructions.Tell(error, fatal=False))
            self._out.append(instructions.Fetch(shard, wanted.owner, after_s=pause_s))
            return self._take()
        self._fail(shard, error)
        return self._advance()

    def ack(self, shards: Iterable[int]) -> list[Instruction]:
        """The reader has emitted all of these shards."""
        for shard in shards:
            if self._sent.pop(self._checked(shard), None) is not None:
                self._bad.pop(shard, None)
                self._acks.add(shard)
        if self._acks.to_flush:
            self._out.append(instructions.AcksWaiting())
        return self._advance()

    def flush_acks(self) -> list[Instruction]:
        self._flush()
        return self._take()

    def acks_durable(self) -> list[Instruction]:
        self._acks.durable()
        self._flush()
        return self._advance()

    def bad(self, shard: int, now_s: float) -> list[Instruction]:
        """The reader could not use what came: get the shard again, from elsewhere."""
        if self._checked(shard) not in self._sent or self.ended:
            return self._take()
        owner = self._sent.pop(shard)
        count = self._bad[shard] = self._bad.get(shard, 0) + 1
        if count >= BAD_LIMIT:
            self._fail(
                shard, errors.DataLossError(f"{self.name_of(shard)}: {many(count, 'copy', 'copies')} came damaged")
            )
        else:
            self._free.add(shard)
            self._unsent_bytes += int(self.lengths_bytes[shard])
            self._waiting[shard] = WantedShard(owner, now_s)
            self._out.append(instructions.Fetch(shard, owner, drop_first=True))
        return self._advance()

    def blocked(self, blocked: bool) -> list[Instruction]:
        """The socket takes no more (or does again): what is ready waits here, where it is counted."""
        self._blocked = blocked
        return self._advance()

    def draining(self, shards_received: int) -> list[Instruction]:
        """Void when more was sent since: the reader will say it again when that, too, has been emitted."""
        if shards_received > self.sent_frames:
            raise ProtocolError(f"DRAINING after {many(shards_received, 'shard')} of {self.sent_frames} that were sent")
        if shards_received == self.sent_frames:
            self._drained = True
        return self._advance()

    def held(self) -> list[int]:
        """Every shard that is this reader's and whose acknowledgement is not durable."""
        return [*self._sent, *self._ready, *self._waiting, *self._failed, *self._acks]

    def given(self) -> list[int]:
        """Of these, those that the reader may have: what was sent, if only once and damaged."""
        never = {shard for shards in (self._ready, self._waiting) for shard in shards} - self._free
        return [shard for shard in self.held() if shard not in never]

    def acks_unsettled(self) -> bool:
        return self._acks.unsettled

    # What follows from the state.

    def _advance(self) -> list[Instruction]:
        if not self._finished:
            self._send()
            self._ask()
            self._conclude()
        return self._take()

    def _send(self) -> None:
        while self._ready and self.credit_bytes > 0 and not self._blocked:
            shard = self._next_turn() if self.ordered else next(iter(self._ready))
            if shard is None:
                break
            self._send_one(shard)

    def _next_turn(self) -> int | None:
        while self._turn and self._turn[0] not in self._ready:
            if self._turn[0] in self._waiting and self._turn[0] not in self._free:
                return None
            self._turn.popleft()  # dropped since, or sent
        return self._turn.popleft() if self._turn else None

    def _send_one(self, shard: int) -> None:
        self._sent[shard] = self._ready.pop(shard)
        self._unsent_bytes -= int(self.lengths_bytes[shard])
        self.credit_bytes -= int(self.lengths_bytes[shard])
        self.sent_frames += 1
        self._drained = False
        self._out.append(instructions.Send(shard))

    def _ask(self) -> None:
        if self.ended or self._paused:
            return
        # A failed shard was never emitted: to call the rest drained would end the session without it.
        draining = self._emitted_all() and not self._failed
        if self._lease is not None:
            if draining and not self._lease.draining:
                self._lease = self._request(self._lease.sequence, True, self._lease)
                self._out.append(self._lease)
            return
        unsent = len(self._waiting) + len(self._ready)
        room_bytes = max(self.credit_bytes, 0) + self._ahead_bytes - self._unsent_bytes
        # Asking for a few at a time would cost a call a shard: wait until half of the room ahead is free.
        enough = room_bytes > self._ahead_bytes // 2 and unsent <= self.limits.ahead_shards // 2
        if unsent and not enough:
            return
        if not unsent and room_bytes <= 0:
            return
        if self.wanting and not self._wanted:
            return  # it will say
        self._sequence += 1
        self._lease = self._request(self._sequence, draining)
        self._out.append(self._lease)

    def _request(self, sequence: int, draining: bool, before: Lease | None = None) -> Lease:
        acked = before.acked if before else ()
        if not acked and not self.leaving:  # they cost a call less, and what they make free is given out
            acked = self._acks.take(MAX_BY_LEASE)
        unsent = len(self._waiting) + len(self._ready)
        room_bytes = max(self.credit_bytes, 0) + self._ahead_bytes - self._unsent_bytes
        max_shards = min(MAX_LEASE_SHARDS, max(self.limits.ahead_shards - unsent, 1))
        wanted = before.wanted if before else self._next_wanted(max_shards, room_bytes)  # the answer may be that one's
        return Lease(sequence, max_shards, max(room_bytes, 1), draining, WAIT_MS, wanted, acked)

    def _next_wanted(self, max_shards: int, max_bytes: int) -> tuple[int, ...]:
        wanted: list[int] = []
        for shard in self._wanted:
            max_bytes -= int(self.lengths_bytes[shard])
            if wanted and (max_bytes < 0 or len(wanted) == max_shards):
                break
            wanted.append(shard)
        return tuple(wanted)

    def _conclude(self) -> None:
        if self.ended:
            if not self.acks_unsettled():
                self._finished = True
                self._out.append(instructions.SendEnd())
            return
        if self._failed and self._dry and self._emitted_all():
            self._finished = True
            self._out.append(instructions.Tell(next(iter(self._failed.values())), fatal=True))

    def _emitted_all(self) -> bool:
        # With nothing unacknowledged there is nothing left to hold back, whether or not the reader said so.
        return not self._waiting and not self._ready and (self._drained or not self._sent)

    def _want(self, shard: int, owner: str, now_s: float) -> None:
        self._unsent_bytes += int(self.lengths_bytes[shard])
        self._waiting[shard] = WantedShard(owner, now_s)
        if self.ordered:
            self._turn.append(shard)
        self._out.append(instructions.Fetch(shard, owner))

    def _fail(self, shard: int, error: TfquiverError) -> None:
        if self._waiting.pop(shard, None) is not None:
            self._unsent_bytes -= int(self.lengths_bytes[shard])
        self._free.discard(shard)
        self._finished = self._finished or self.ordered  # what comes after it must not come before it
        if self._failed.first_so(shard, error) or self.ordered:
            self._out.append(instructions.Tell(error, fatal=self.ordered))

    def _give_up(self, error: TfquiverError) -> list[Instruction]:
        self._finished = True
        self._out.append(instructions.Tell(error, fatal=True))
        return self._take()

    def _drop(self, lost: set[int]) -> None:
        told = []
        for shard in sorted(lost):
            if shard in self._waiting or shard in self._ready:
                self._unsent_bytes -= int(self.lengths_bytes[shard])
                self._out.append(instructions.Discard(shard))
            if shard in self._sent or shard in self._bad:  # else its reader has never heard of it
                told.append(shard)
            self._waiting.pop(shard, None)
            self._ready.pop(shard, None)
            self._sent.pop(shard, None)
            self._failed.pop(shard, None)
            self._bad.pop(shard, None)
            self._free.discard(shard)
        self._acks.drop(lost)
        if told:
            self._out.append(instructions.SendDropped(tuple(told)))

    def _flush(self) -> None:
        if shards := self._acks.take(MAX_BY_ACK):
            self._out.append(instructions.SendAcks(shards))

    def _checked(self, shard: int) -> int:
        if not 0 <= shard < len(self.lengths_bytes):
            raise ProtocolError(f"shard {shard}: the data set has {len(self.lengths_bytes)}")
        return shard

    def _take(self) -> list[Instruction]:
        out, self._out = self._out, []
        return out
