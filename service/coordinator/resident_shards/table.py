"""One data set's shards: which are resident, who holds each, and who is to own those that nobody holds. Pure."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tfquiver.digests.digest import Digest
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.service.coordinator.resident_shards.holders import Holders
from tfquiver.service.coordinator.resident_shards.unsettled import Told
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_rows
from tfquiver.shard_owners_chunks_hash_prefixes.rendezvous import Owners
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct

_ENTERED_AT_ONCE = 500_000  # hashes: a fraction of a second, beside the loop


@dataclass(slots=True, eq=False)
class Opening:
    """Of a data set that a thread makes the table of: what each node held when that began, and what happened since."""

    inventories: list[tuple[int, Prefixes]]  # number of a node, and what it holds
    late: deque[tuple[int, bool, Prefixes]] = field(default_factory=deque)  # and whether it came, or went


class Table:
    """One data set's shards. Making it sorts the hashes, which takes a while for millions: do it in a thread."""

    def __init__(self, digest: Digest) -> None:
        self.digest = digest
        self.lengths, self.records = digest.lengths, digest.records
        self.resident = bytearray(digest.num_shards)
        self.resident_shards = self.resident_bytes = 0  # raw bytes
        # Raw bytes, and what all of it takes on nodes' disks where compressing does not make it smaller: here, since of
        # five million shards the loop would take a tenth of a second for it.
        self.size_bytes, self.disk_bytes = int(self.lengths.sum()), int(most_disk_bytes(self.lengths).sum())
        self.holders = Holders(digest.num_shards)
        self.doubtful = deque[npt.NDArray[np.uint32]]()  # taken for resident until somebody is found who holds them
        self.prefixes: Prefixes = of_rows(digest.hashes)
        self._order = np.argsort(self.prefixes, kind="stable").astype(np.uint32)
        self.sorted = self.prefixes[self._order]
        self._has_equal = bool((self.sorted[1:] == self.sorted[:-1]).any())
        self._owners: Owners | None = None
        self._owners_among: tuple[str, ...] = ()

    @functools.cached_property
    def none_resident(self) -> bytearray:
        """For sessions that are to read as if nothing were."""
        return bytearray(len(self.resident))

    def find(self, values: Prefixes) -> npt.NDArray[np.uint32]:
        """The shards with these hashes; a hash may be that of several shards."""
        # Sorted, so that neighbours are looked for one after the other: a fourth of the time.
        return self._look_up(np.sort(values))[0]

    def enter(self, opening: Opening) -> None:
        """What the nodes held then. In the thread that made it, and of a table in which there is nothing yet.

        In few and long steps, in which numpy lets other threads run: with a few short ones for each of a thousand nodes
        the loop would wait at every turn until the interpreter is free.
        """
        shards, numbers = [np.empty(0, np.uint32)], [np.empty(0, np.int32)]
        for some in _parts(opening.inventories):
            values = np.concatenate([held for _, held in some])
            whose = np.repeat(np.array([number for number, _ in some], np.int32), [len(held) for _, held in some])
            order = np.argsort(values, kind="stable")
            found, at = self._look_up(values[order])
            shards.append(found)
            numbers.append(whose[order[at]])
        held = np.concatenate(shards)
        self.holders.enter(held, np.concatenate(numbers))
        mark(self, held, 1)

    def set(self, shards: npt.NDArray[np.uint32], number: int) -> npt.NDArray[np.uint32]:
        """A node holds these. Returns those that none held before."""
        return self._set(shards, np.full(len(shards), number, np.int32))

    def take(self, told: Told) -> npt.NDArray[np.uint32]:
        """As `set` of what several nodes have told."""
        shards, numbers = self.where(told)
        fresh = [shards[:0]]
        while len(shards):  # what several hold comes once at a time
            firsts = np.unique(shards, return_index=True)[1]
            fresh.append(self._set(shards[firsts], numbers[firsts]))
            rest = np.ones(len(shards), np.bool_)
            rest[firsts] = False
            # Others than are named add nothing: a shard that four thousand told of took a third of a second.
            rest &= ~self.holders.more[shards]
            shards, numbers = shards[rest], numbers[rest]
        return np.concatenate(fresh)

    def where(self, told: Told) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """The shards with these hashes, and of each who told of it."""
        shards, at = self._look_up(told[0])
        return shards, told[1][at]

    def drop(self, shards: npt.NDArray[np.uint32], numbers: int | npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
        """Each of `shards` is held no longer by the node of that place in `numbers`, as its inventory says. Returns
        those that are not resident any more; those that are `doubtful` now are taken for resident."""
        gone, unsure = self.holders.drop(shards, np.broadcast_to(np.int32(numbers), shards.shape))
        if len(unsure):
            self.doubtful.append(unsure)
        return mark(self, gone, 0)

    def _set(self, shards: npt.NDArray[np.uint32], numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
        """None of `shards` for two nodes."""
        return mark(self, self.holders.put(shards, numbers), 1)

    def only_at(self, numbers: Sequence[int]) -> npt.NDArray[np.uint32]:
        """The shards that these nodes hold and, as far as is known, no others: of what more hold than are named it is
        taken that another one has it. For a thread, beside what changes it: of millions it takes some ms."""
        return self.holders.only_at(numbers)

    def owners(self, shards: Sequence[int], node_ids: tuple[str, ...]) -> list[str]:
        """By rendezvous among `node_ids`, a tuple that is the same object as long as membership is the same."""
        if not node_ids:
            return [""] * len(shards)
        if node_ids is not self._owners_among:
            self._owners, self._owners_among = Owners(node_ids), node_ids
        assert self._owners
        return self._owners.of(self.prefixes[np.asarray(shards, np.int64)])

    def _look_up(self, values: Prefixes) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.intp]]:
        """As `find`, of sorted ones; and at which of them each was found."""
        first = np.searchsorted(self.sorted, values, "left")
        if not self._has_equal and len(self.sorted):  # np.repeat, of millions, lets no other thread run
            found = np.flatnonzero(self.sorted.take(first, mode="clip") == values)
            return self._order[first[found]], found
        counts = np.searchsorted(self.sorted, values, "right") - first
        found = np.flatnonzero(counts)
        if not len(found):
            return np.empty(0, np.uint32), found
        counts = counts[found]
        # first[0], first[0]+1, ... (counts[0] of them), first[1], ...
        steps = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        shards: npt.NDArray[np.uint32] = self._order[np.repeat(first[found], counts) + steps]
        return shards, np.repeat(found, counts)


def _parts(inventories: Sequence[tuple[int, Prefixes]]) -> Iterator[list[tuple[int, Prefixes]]]:
    """Of nodes that hold half a million or so together: of all at once the sorting would take gigabytes."""
    part, hashes = list[tuple[int, Prefixes]](), 0
    for number, values in inventories:
        part.append((number, values))
        hashes += len(values)
        if hashes >= _ENTERED_AT_ONCE:
            yield part
            part, hashes = [], 0
    if part:
        yield part


def mark(table: Table, shards: npt.NDArray[np.uint32], value: int) -> npt.NDArray[np.uint32]:
    """Whether they are resident. Counts, too: of five million that takes 25 ms, and people and policies ask for it."""
    resident = np.frombuffer(table.resident, np.uint8)
    changed = distinct(shards[resident[shards] != value])
    resident[shards] = value
    sign = 1 if value else -1
    table.resident_shards += sign * len(changed)
    table.resident_bytes += sign * int(table.lengths[changed].sum())
    return shards
