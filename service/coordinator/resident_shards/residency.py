"""Which shards of the data sets in use are resident, and where; and who owns those that are not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.resident_shards.holdings import Holdings
from tfquiver.service.coordinator.resident_shards.table import Opening, Table
from tfquiver.service.coordinator.resident_shards.table_index import Joint, TableIndex
from tfquiver.service.coordinator.resident_shards.unsettled import Unsettled, of_these
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct

_MERGED_AT_ONCE = 50_000  # hashes: some ms
_GONE_AT_ONCE = 2048  # hashes of a node that is gone, of which the tables are found together
_DROPPED_AT_ONCE = 512  # shards: each is looked for in several arrays of millions, where hardly any is in the caches
# Shards that others may hold, of which that is found out together; and how many hashes are looked for in a turn, where
# to ask a node costs as much as so many of them.
_DOUBTED_AT_ONCE, _ASKED_AT_ONCE, _ASKING = 4096, 8192, 200
_ENOUGH = 4  # that are named then: for a while nobody needs to be found again
Number = TypeVar("Number", bound=np.integer)
Change = tuple[bytes, npt.NDArray[np.uint32]]  # digest id, shards whose residency changed
Settled = tuple[bytes, npt.NDArray[np.uint32], npt.NDArray[np.uint32]]  # the same, what came and what went


class Residency:
    def __init__(self) -> None:
        self._tables: dict[bytes, Table] = {}
        self._index = TableIndex()
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._inventories: dict[int, Holdings] = {}
        self._next_number = 0
        self.changes = 0  # grows with whatever nodes tell that they have, or have no more
        self._openings: list[Opening] = []
        self._unsettled = Unsettled()
        self._doubtful: dict[bytes, Table] = {}  # tables with shards of which it is to be found out who holds them

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
                table.drop(table.find(values), number)
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
        if table.doubtful:
            self._doubtful[table.digest.digest_id] = table

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
        names, numbers = self._names, table.holders.first(np.asarray(shards, np.int64)).tolist()
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

    def replaced(self, node_id: str, values: Prefixes) -> tuple[list[Change], Iterator[Change]]:
        """Forgets what was known of the node. What came; and what goes, which is to be gone through, some shards after
        the others: a node that is started again may have had a hundred thousand. What it tells of meanwhile stays."""
        number = self._number(node_id)
        before, self._inventories[number] = self._inventories[number].all(), Holdings()
        self._remember(number, False, before)
        return self.added(node_id, values), self._no_longer(number, before)

    def _no_longer(self, number: int, before: Prefixes) -> Iterator[Change]:
        for at in range(0, len(before), _GONE_AT_ONCE):
            values = before[at : at + _GONE_AT_ONCE]
            for digest_id, its in list(self._index.having(values)):
                for part in _parts(its):
                    if (table := self._tables.get(digest_id)) is None:
                        break
                    if (inventory := self._inventories.get(number)) is not None:  # else it is gone since
                        part = part[~inventory.contains(part)]
                    yield digest_id, self._drop(table, table.find(part), number)

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
        """It holds nothing any more. Some shards after the others: of two hundred data sets, of which it held some
        each, what follows takes 50 ms, and others may come in between."""
        number = self._numbers.pop(node_id, None)
        if number is None:
            return iter(())
        values = self._inventories.pop(number).all()
        self._remember(number, False, values)
        return self._gone(number, values)

    def _gone(self, number: int, values: Prefixes) -> Iterator[Change]:
        for at in range(0, len(values), _GONE_AT_ONCE):
            for digest_id, its in list(self._index.having(values[at : at + _GONE_AT_ONCE])):
                for part in _parts(its):
                    if (table := self._tables.get(digest_id)) is None:  # it may have been closed meanwhile
                        break
                    yield digest_id, self._drop(table, table.find(part), number)
        del self._names[number]

    @property
    def has_doubts(self) -> bool:
        """Shards whose last holder that was known has them no longer are taken for resident until `find_out` has
        asked whether any of the others holds them: many did, and not all are known by name."""
        return bool(self._doubtful)

    def find_out(self) -> Iterator[Change]:
        """Of all nodes, some at a time: of thousands with much it takes seconds, and others may come in between."""
        while self._doubtful:
            digest_id, table = next(iter(self._doubtful.items()))
            if self._tables.get(digest_id) is not table or not table.doubtful:
                del self._doubtful[digest_id]
                continue
            together = list(itertools.islice(table.doubtful, max(1, _DOUBTED_AT_ONCE // _DROPPED_AT_ONCE)))
            shards = np.concatenate(together)  # each is asked for with many others, in whatever parts they went
            for at in range(0, len(shards), _DOUBTED_AT_ONCE):
                yield from self._find_out(table, shards[at : at + _DOUBTED_AT_ONCE])
            for _ in together:
                table.doubtful.popleft()

    def _find_out(self, table: Table, shards: npt.NDArray[np.uint32]) -> Iterator[Change]:
        """Whoever tells of them meanwhile is named as ever; who had them is until the end."""
        digest_id, holders = table.digest.digest_id, table.holders
        shards = shards[np.argsort(table.prefixes[shards])]  # neighbours are looked for one after the other
        had, values, looked = holders.first(shards), table.prefixes[shards], 0
        sought = np.arange(len(shards))  # of these places
        holders.more[shards] = False
        for number, inventory in list(self._inventories.items()):
            if not len(sought):
                break
            if self._inventories.get(number) is inventory:  # it may be gone, or have told all anew
                there = np.flatnonzero(inventory.contains(values))
                if len(there):
                    left = np.ones(len(sought), np.bool_)
                    for some in _parts(there):
                        if self._inventories.get(number) is not inventory:  # since the part before
                            break
                        some = some[inventory.contains(values[some])]
                        found = shards[sought[some]]
                        yield digest_id, table.set(found, number)
                        left[some] = holders.count(found) <= _ENOUGH
                    sought, values = sought[left], values[left]
            looked += len(sought) + _ASKING
            if looked >= _ASKED_AT_ONCE:
                looked = 0
                yield digest_id, shards[:0]
                if self._tables.get(digest_id) is not table:
                    return
        not_all = np.ones(len(shards), np.bool_)  # were asked of these
        not_all[sought] = False
        holders.more[shards[not_all]] = True
        for number in distinct(had).tolist():
            for its in _parts(shards[had == number]):
                if number in self._inventories:  # it may have them again
                    its = its[~self._inventories[number].contains(table.prefixes[its])]
                yield digest_id, self._drop(table, its, number)

    def _number(self, node_id: str) -> int:
        if node_id not in self._numbers:
            number = self._next_number
            self._next_number += 1
            self._numbers[node_id], self._names[number] = number, node_id
            self._inventories[number] = Holdings()
        return self._numbers[node_id]

    def _remember(self, number: int, there: bool, values: Prefixes) -> None:
        self.changes += len(values) > 0
        for opening in self._openings:
            opening.late.extend((number, there, part) for part in _parts(values))

    def _without(self, number: int, values: Prefixes) -> list[Change]:
        """The node `number` has these no longer: another that has them stands in for it, else they are missing."""
        self._remember(number, False, values)
        having = self._index.having(values)
        found = ((self._tables[digest_id], its) for digest_id, its in having)
        return [(table.digest.digest_id, self._drop(table, table.find(its), number)) for table, its in found]

    def _drop(
        self, table: Table, shards: npt.NDArray[np.uint32], numbers: int | npt.NDArray[np.int32]
    ) -> npt.NDArray[np.uint32]:
        """As Table.drop."""
        gone = table.drop(shards, numbers)
        if table.doubtful:
            self._doubtful[table.digest.digest_id] = table
        return gone


def _parts(values: npt.NDArray[Number]) -> Iterator[npt.NDArray[Number]]:
    """So many as take a millisecond or so; of none one."""
    for at in range(0, max(1, len(values)), _DROPPED_AT_ONCE):
        yield values[at : at + _DROPPED_AT_ONCE]
