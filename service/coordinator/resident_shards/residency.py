"""Which shards of the data sets in use are resident, and where; and who owns those that are not."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tfquiver.digests.digest import Digest
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.service.coordinator.resident_shards.holdings import Holdings
from tfquiver.service.coordinator.resident_shards.table_index import Joint, TableIndex
from tfquiver.service.coordinator.resident_shards.unsettled import Told, Unsettled, of_these
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_rows
from tfquiver.shard_owners_chunks_hash_prefixes.rendezvous import Owners
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import among, distinct

_NOBODY = -1
_MERGED_AT_ONCE = 50_000  # hashes: some ms
_ENTERED_AT_ONCE = 500_000  # hashes: a fraction of a second, beside the loop
_NAMED_HOLDERS = 2  # of a shard, by number; of others it is known that there are some
Change = tuple[bytes, npt.NDArray[np.uint32]]  # digest id, shards whose residency changed
Settled = tuple[bytes, npt.NDArray[np.uint32], npt.NDArray[np.uint32]]  # the same, what came and what went


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
        self.holder = np.full(digest.num_shards, _NOBODY, np.int32)  # number of a node that holds it
        self.prefixes: Prefixes = of_rows(digest.hashes)
        self._order = np.argsort(self.prefixes, kind="stable").astype(np.uint32)
        self.sorted = self.prefixes[self._order]
        self._has_equal = bool((self.sorted[1:] == self.sorted[:-1]).any())
        self.second = np.full(digest.num_shards, _NOBODY, np.int32)  # of another that holds it, too
        self.more = np.zeros(digest.num_shards, np.bool_)  # and so may others than these two
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
        self._enter(np.concatenate(shards), np.concatenate(numbers))

    def set(self, shards: npt.NDArray[np.uint32], number: int) -> npt.NDArray[np.uint32]:
        """A node holds these. Returns those that none held before."""
        return self._set(shards, np.full(len(shards), number, np.int32))

    def take(self, told: Told) -> npt.NDArray[np.uint32]:
        """As `set` of what several nodes have told."""
        shards, numbers = self.where(told)
        fresh = [shards[:0]]
        # What several hold comes once at a time. Where it has come from one more than are named, others add nothing: a
        # shard that four thousand told of took a third of a second, one after the other.
        for _ in range(_NAMED_HOLDERS + 1):
            if not len(shards):
                break
            firsts = np.unique(shards, return_index=True)[1]
            fresh.append(self._set(shards[firsts], numbers[firsts]))
            rest = np.ones(len(shards), np.bool_)
            rest[firsts] = False
            shards, numbers = shards[rest], numbers[rest]
        return np.concatenate(fresh)

    def where(self, told: Told) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """The shards with these hashes, and of each who told of it."""
        shards, at = self._look_up(told[0])
        return shards, told[1][at]

    def _set(self, shards: npt.NDArray[np.uint32], numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
        """None of `shards` for two nodes."""
        fresh = self.holder[shards] == _NOBODY
        also = ~fresh & (self.holder[shards] != numbers) & (self.second[shards] != numbers)
        others, theirs = shards[also], numbers[also]
        second = self.second[others] == _NOBODY
        self.more[others[~second]] = True
        self.second[others[second]] = theirs[second]
        self.holder[shards[fresh]] = numbers[fresh]
        return _mark(self, shards[fresh], 1)

    def only_at(self, numbers: Sequence[int]) -> npt.NDArray[np.uint32]:
        """The shards that these nodes hold and, as far as is known, no others: of what more than two hold it is taken
        that another one has it. For a thread, beside what changes it: of millions it takes some ms."""
        theirs = np.isin(self.holder, numbers) & ((self.second == _NOBODY) | np.isin(self.second, numbers))
        return np.flatnonzero(theirs & ~self.more).astype(np.uint32)

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

    def _enter(self, shards: npt.NDArray[np.uint32], numbers: npt.NDArray[np.int32]) -> None:
        """As `set` of one after the other: each of `shards` is held by the node of that place in `numbers`."""
        order = np.argsort(shards, kind="stable")
        shards, numbers = shards[order], numbers[order]
        places = np.arange(len(shards))
        begins = np.concatenate((places[:1] == 0, shards[1:] != shards[:-1]))
        rank = places - np.maximum.accumulate(np.where(begins, places, 0))
        self.holder[shards[rank == 0]] = numbers[rank == 0]
        self.second[shards[rank == 1]] = numbers[rank == 1]
        self.more[shards[rank > 1]] = True
        _mark(self, shards, 1)


class Residency:
    def __init__(self) -> None:
        self._tables: dict[bytes, Table] = {}
        self._index = TableIndex()
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._inventories: dict[int, Holdings] = {}
        self._next_number = 0
        self._openings: list[Opening] = []
        self._unsettled = Unsettled()

    def __contains__(self, digest_id: bytes) -> bool:
        return digest_id in self._tables

    def table(self, digest_id: bytes) -> Table:
        return self._tables[digest_id]

    def tables(self) -> list[bytes]:
        return list(self._tables)

    def merge(self) -> Iterator[None]:
        """Some at a time, what `opening` would do at once: a second where a thousand nodes have told of much."""
        merged = 0
        for inventory in list(self._inventories.values()):
            merged += inventory.merge()
            if merged >= _MERGED_AT_ONCE:
                merged = 0
                yield

    def opening(self) -> Opening:
        """What `Table.enter` wants, in a thread; what changes until `finish` is remembered."""
        opening = Opening([(number, inventory.all()) for number, inventory in self._inventories.items()])
        self._openings.append(opening)
        return opening

    def catch_up(self, table: Table, opening: Opening) -> Iterator[None]:
        """Before `open`, a report at a time: after a restart all nodes may tell all that they hold while a table is
        made, and to look for millions of shards in it takes seconds."""
        while opening.late:
            number, there, values = opening.late.popleft()
            if there:
                table.set(table.find(values), number)
            else:
                self._drop(table, table.find(values), number)
            yield

    def finish(self, opening: Opening) -> None:
        self._openings.remove(opening)

    def open(self, table: Table, opening: Opening | None = None) -> None:
        """Begins to follow a data set; `opening` has been entered in it."""
        if opening is None:
            opening = Opening([(number, inventory.all()) for number, inventory in self._inventories.items()])
            table.enter(opening)
        self._tables[table.digest.digest_id] = table
        self._index.add(table.digest.digest_id, table.sorted)
        for _ in self.catch_up(table, opening):
            pass

    def joining(self) -> Callable[[], Joint] | None:
        """As TableIndex.joining; what comes out is for `join`."""
        return self._index.joining()

    def join(self, joint: Joint) -> None:
        self._index.join(joint)

    def close(self, digest_id: bytes) -> None:
        self._tables.pop(digest_id, None)
        self._index.remove(digest_id)

    def holders(self, table: Table, shards: Sequence[int] | npt.NDArray[np.integer]) -> list[str]:
        """Of each shard the node that holds it; "" when none does."""
        names, numbers = self._names, table.holder[np.asarray(shards, np.int64)].tolist()
        return [names.get(number, "") for number in numbers]

    def numbers(self, node_ids: Iterable[str]) -> list[int]:
        """Of those that have told of themselves."""
        return [self._numbers[node_id] for node_id in node_ids if node_id in self._numbers]

    def holds(self, node_id: str, values: Prefixes) -> npt.NDArray[np.bool_]:
        """Shape of `values`: which of these that node holds, as far as it has told."""
        number = self._numbers.get(node_id)
        return np.zeros(len(values), np.bool_) if number is None else self._inventories[number].contains(values)

    def held(self) -> dict[str, Prefixes]:
        """What each node holds, sorted; arrays that do not change any more. Takes up to a second, see `merge`."""
        return {self._names[number]: inventory.all() for number, inventory in self._inventories.items()}

    def added(self, node_id: str, values: Prefixes) -> list[Change]:
        number = self._number(node_id)
        self._inventories[number].add(values)
        self._remember(number, True, values)
        changes = []
        for digest_id, its in self._index.having(values):
            table = self._tables[digest_id]
            changes.append((digest_id, table.set(table.find(its), number)))
        return changes

    def removed(self, node_id: str, values: Prefixes) -> list[Change]:
        number = self._number(node_id)
        self._inventories[number].remove(values)
        return self._without(number, values)

    def replaced(self, node_id: str, values: Prefixes) -> list[Change]:
        """Forgets what was known of the node first."""
        number = self._number(node_id)
        before, self._inventories[number] = self._inventories[number].all(), Holdings()
        kept = among(np.sort(values), before)
        return self._without(number, before[~kept]) + self.added(node_id, values)

    def told(self, node_id: str, added: Prefixes, removed: Prefixes) -> int:
        """As `added` and `removed`, but tables follow with `settle`, which goes before any of the others here. How many
        hashes wait for that."""
        number = self._number(node_id)
        inventory, unsettled = self._inventories[number], self._unsettled
        for there, values, put in ((True, added, inventory.add), (False, removed, inventory.remove)):
            if len(values):
                put(values)
                self._remember(number, there, values)
                unsettled.add(number, there, values)
        return unsettled.hashes

    @property
    def unsettled(self) -> int:
        """Hashes that `settle` would look for."""
        return self._unsettled.hashes

    def settle(self) -> Iterator[Settled]:
        """What was `told` until now reaches the tables, one after the other: of many nodes together, since to look for
        ten hashes costs as much as to look for hundreds. To be gone through before it is called again."""
        came, went = self._unsettled.take()
        both = np.concatenate((came[0], went[0]))
        for digest_id, its in list(self._index.having(both)):
            if table := self._tables.get(digest_id):  # it may have been closed meanwhile
                fresh = table.take(of_these(came, its))
                yield digest_id, fresh, self._drop(table, *table.where(of_these(went, its)))

    def node_gone(self, node_id: str) -> Iterator[Change]:
        """It holds nothing any more. A data set after the other: of two hundred, of which it held some each, what
        follows takes 50 ms, and others may come in between."""
        number = self._numbers.pop(node_id, None)
        if number is None:
            return iter(())
        values = self._inventories.pop(number).all()
        self._remember(number, False, values)
        return self._gone(number, list(self._index.having(values)))

    def _gone(self, number: int, having: Sequence[tuple[bytes, Prefixes]]) -> Iterator[Change]:
        for digest_id, its in having:
            if digest_id in self._tables:  # it may have been closed meanwhile
                table = self._tables[digest_id]
                yield digest_id, self._drop(table, table.find(its), number)
        del self._names[number]

    def _number(self, node_id: str) -> int:
        if node_id not in self._numbers:
            number = self._next_number
            self._next_number += 1
            self._numbers[node_id], self._names[number] = number, node_id
            self._inventories[number] = Holdings()
        return self._numbers[node_id]

    def _remember(self, number: int, there: bool, values: Prefixes) -> None:
        for opening in self._openings:
            opening.late.append((number, there, values))

    def _without(self, number: int, values: Prefixes) -> list[Change]:
        """The node `number` has these no longer: another that has them stands in for it, else they are missing."""
        self._remember(number, False, values)
        having = self._index.having(values)
        found = ((self._tables[digest_id], its) for digest_id, its in having)
        return [(table.digest.digest_id, self._drop(table, table.find(its), number)) for table, its in found]

    def _drop(
        self, table: Table, shards: npt.NDArray[np.uint32], numbers: int | npt.NDArray[np.int32]
    ) -> npt.NDArray[np.uint32]:
        """Each of `shards` is held no longer by the node of that place in `numbers`, as its inventory says."""
        table.second[shards[table.second[shards] == numbers]] = _NOBODY
        shards = shards[table.holder[shards] == numbers]
        second = table.second[shards]
        table.holder[shards], table.second[shards] = second, _NOBODY
        shards = shards[second == _NOBODY]
        gone, doubtful = shards[~table.more[shards]], shards[table.more[shards]]
        for other, inventory in self._inventories.items():  # where there are a thousand, this takes a second
            if not len(doubtful):
                break
            there = inventory.contains(table.prefixes[doubtful])
            table.holder[doubtful[there]] = other
            doubtful = doubtful[~there]
        table.more[doubtful] = False
        return _mark(table, np.concatenate((gone, doubtful)), 0)


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


def _mark(table: Table, shards: npt.NDArray[np.uint32], value: int) -> npt.NDArray[np.uint32]:
    """Counts, too: of five million shards that takes 25 ms, and people and policies ask for it."""
    resident = np.frombuffer(table.resident, np.uint8)
    changed = distinct(shards[resident[shards] != value])
    resident[shards] = value
    sign = 1 if value else -1
    table.resident_shards += sign * len(changed)
    table.resident_bytes += sign * int(table.lengths[changed].sum())
    return shards
