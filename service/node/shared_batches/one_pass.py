"""One pass of a stream: who follows it and where each is, who makes its batches, what each came to. Pure.

A batch is a function of pipeline, pass and index. So whatever is lost here (a batch, the maker, the whole node) costs
time and no data: a trainer makes again what it lacks, and what it has made is compared with what was made before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum

from tfquiver import errors

MOST_BATCHES = 1 << 24  # of a pass; 8 bytes each
MOST_CHECKPOINTS = 64
_MOST_AHEAD, _LEAST_AHEAD = 16, 2  # batches made before the fastest trainer asks for them


@dataclass(frozen=True, slots=True)
class Sum:
    """What a batch came to: two of a pipeline that makes the same batches are the same."""

    crc32: int
    length_bytes: int

    @property
    def number(self) -> int:
        return self.crc32 << 32 | self.length_bytes


class Answer(Enum):
    GIVE = "it was made: it is here, or its trainer makes it again"
    WAIT = "it is being made"
    UNMADE = "nobody makes it"
    OVER = "there are not so many"


class OnePass:
    def __init__(self) -> None:
        self.first = 0  # the first batch that is to be made here; those before were, when nobody looked
        self.over = False
        self.maker: int | None = None
        self.cursors: dict[int, int] = {}  # follower -> the batch that it wants next
        self.checkpoints: dict[int, int] = {}  # by how many batches are before it: a number that others know it by
        self._sums = array("Q")
        self._longest_bytes = 1

    @property
    def head(self) -> int:
        """How many have been made."""
        return self.first + len(self._sums)

    @property
    def lowest(self) -> int | None:
        """Whom nobody waits for any more: all before this."""
        return min(self.cursors.values(), default=None)

    @property
    def deserted(self) -> bool:
        return not self.cursors and self.maker is None

    def sum_of(self, index: int) -> Sum | None:
        """None: it was made when nobody here looked."""
        if not self.first <= index < self.head:
            return None
        number = self._sums[index - self.first]
        return Sum(number >> 32, number & 0xFFFFFFFF)

    # Followers.

    def ask(self, follower: int, index: int, made: Sum | None) -> Answer:
        """A trainer wants this batch next, and has had all before. `made`: it has made the one before by itself.

        Raises InvalidArgumentError: another came of it than before.
        """
        if made is not None and index > 0:
            self._compare(index - 1, made)
        if not self._sums and self.maker is None and not self.over and not self.cursors.keys() - {follower}:
            self.first = index  # nobody here wants one that is before
        self.cursors[follower] = index
        return self.answer(index)

    def answer(self, index: int) -> Answer:
        if index != self.head:  # who is further than the maker, as after a restart of the node, does not wait for it
            return Answer.GIVE
        if self.over:
            return Answer.OVER
        return Answer.WAIT if self.maker is not None else Answer.UNMADE

    def leave(self, who: int) -> bool:
        """A follower, or the maker, has gone; whether it was the maker."""
        self.cursors.pop(who, None)
        if self.maker != who:
            return False
        self.maker = None
        return True

    def checkpoint_for(self, index: int) -> int | None:
        """From where this batch is made again soonest: how many batches are before that; None: from the beginning."""
        known = sorted(self.checkpoints)
        at = bisect_right(known, index)
        return known[at - 1] if at else None

    # The maker.

    def make(self, who: int) -> int | None:
        """Which batch this one is to make first; None: another makes them, or there are no more."""
        if self.over or self.maker is not None:
            return None
        self.maker = who
        return self.head

    def made(self, who: int, index: int, sum: Sum) -> bool:
        """Whether it is a new one. Raises InvalidArgumentError, ProtocolError, ResourceExhaustedError."""
        if self.maker != who:
            raise errors.ProtocolError("a batch of one who does not make them")
        if index < self.head:
            self._compare(index, sum)
            return False
        if index != self.head or self.over:
            raise errors.ProtocolError(f"batch {index} came where {self.head} was due")
        if len(self._sums) >= MOST_BATCHES:
            raise errors.ResourceExhaustedError(f"a pass of a stream has at most {MOST_BATCHES} batches")
        self._sums.append(sum.number)
        self._longest_bytes = max(self._longest_bytes, sum.length_bytes)
        return True

    def finish(self, who: int, batches: int) -> None:
        """There are so many. Raises InvalidArgumentError: there were more; ProtocolError."""
        if self.maker != who or batches > self.head:
            raise errors.ProtocolError(f"the end after {batches} batches, of which {self.head} came")
        if batches < self.head:
            raise errors.InvalidArgumentError(_unlike(f"it ends after {batches} batches, and had {self.head}"))
        self.over = True

    def ends(self, follower: int, batches: int) -> None:
        """A trainer has come to the end of the pipeline by itself, further than those made here, as after a restart of
        the node. Raises InvalidArgumentError: there were more, or fewer; ProtocolError."""
        if self.cursors.get(follower) != batches:
            raise errors.ProtocolError(f"the end after {batches} batches, of a trainer that is elsewhere")
        if batches < self.head or (self.over and batches > self.head):
            raise errors.InvalidArgumentError(_unlike(f"it ends after {batches} batches, and had {self.head}"))

    def room(self, window_bytes: int) -> int:
        """Up to which batch the maker may go now. As far as the fastest needs, whoever is slow."""
        ahead = min(_MOST_AHEAD, max(_LEAST_AHEAD, window_bytes // 4 // self._longest_bytes))
        return max((at for at in self.cursors.values() if at <= self.head), default=self.head) + ahead

    def keep_checkpoint(self, before: int, number: int) -> int | None:
        """One more; a number that is not needed any more: that one was known, or there were too many."""
        if before in self.checkpoints:
            return number
        self.checkpoints[before] = number
        return self.thin() if len(self.checkpoints) > MOST_CHECKPOINTS else None

    def thin(self) -> int | None:
        """The number of a checkpoint that is given up: the one that is missed least, not the newest; None: there is no
        other."""
        known = sorted(self.checkpoints)
        gaps = {known[i + 1] - known[i - 1]: known[i] for i in range(len(known) - 2, 0, -1)}
        least = gaps[min(gaps)] if gaps else known[0] if len(known) == 2 else None
        return None if least is None else self.checkpoints.pop(least)

    def _compare(self, index: int, sum: Sum) -> None:
        before = self.sum_of(index)
        if before is not None and before != sum:
            raise errors.InvalidArgumentError(_unlike(f"batch {index} came out unlike the one that others have had"))


def _unlike(what: str) -> str:
    return (
        f"{what}: the pipeline does not make the same batches again. All who share a stream need the same pipeline; "
        "random maps need stateless seeds, shuffle() a seed"
    )
