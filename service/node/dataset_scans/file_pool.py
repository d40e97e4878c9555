"""Who scans which file of one data set. Pure.

Each file is somebody's by its name, so that whoever scans the data set again, after a node was lost, asks for it where
its table may be known already; who has none left takes some of whoever has most.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from tfquiver.digests.file_entry import FileEntry
from tfquiver.shard_owners_chunks_hash_prefixes.rendezvous import Owners

_AT_ONCE = 1 << 16  # files, of which the scores of all nodes are in memory


class FilePool:
    """Each of the files is waiting, in one worker's hands, or done.

    Args:
      left: numbers of those of the files that are to be scanned.
      host: the worker that is always there.
      others: workers that are there now; these, and others that come later, may go.
    """

    def __init__(self, files: Sequence[FileEntry], left: Sequence[int], host: str, others: Iterable[str]) -> None:
        self._files, self._host = files, host
        owners = Owners([host, *others])
        self._waiting: dict[str, deque[int]] = {name: deque() for name in owners.names}
        self._waiting_bytes = dict.fromkeys(owners.names, 0)
        self._left = set(left)
        self._hands: dict[int, str] = {}
        # Nobody else is asked for what others could not do: an error that is the file's own is the scan's. Nor for what
        # has no generation: it may be another file there, or by the time that its table comes.
        self._hosts = deque(number for number in left if not files[number].generation)
        given = [number for number in left if files[number].generation]
        for at in range(0, len(given), _AT_ONCE):
            some = given[at : at + _AT_ONCE]
            names = b"".join(hashlib.blake2b(files[one].uri.encode(), digest_size=8).digest() for one in some)
            for number, name in zip(some, owners.of(np.frombuffer(names, np.uint64)), strict=True):
                self._put(number, name)

    @property
    def over(self) -> bool:
        return not self._left

    def take(self, worker: str, most_bytes: int, most_files: int) -> list[int]:
        """Files for it, in its hands from now on: at least one, if there is one that it may have. `most_bytes` is not
        exceeded but by one file alone."""
        taken: list[int] = []
        size_bytes = 0
        victim = worker
        own = self._waiting.get(worker)  # None: it has come later
        waiting = self._hosts if worker == self._host and self._hosts else own
        if not waiting:
            victim = max(self._waiting, key=lambda name: (self._waiting_bytes[name], len(self._waiting[name])))
            waiting = self._waiting[victim]
        steals = victim != worker
        while waiting and len(taken) < most_files:
            number = waiting[-1] if steals else waiting[0]
            if taken and size_bytes + self._files[number].size_bytes > most_bytes:
                break
            waiting.pop() if steals else waiting.popleft()
            if waiting is not self._hosts:
                self._waiting_bytes[victim] -= self._files[number].size_bytes
            taken.append(number)
            size_bytes += self._files[number].size_bytes
        self._hands.update(dict.fromkeys(taken, worker))
        return taken

    def done(self, number: int) -> None:
        del self._hands[number]
        self._left.remove(number)

    def back(self, worker: str, numbers: Iterable[int], to_host: bool = False) -> bool:
        """Those of them that are in its hands wait again. `to_host`: for that worker alone. False: none was."""
        left = dict.fromkeys(number for number in numbers if self._hands.get(number) == worker)
        for number in left:
            del self._hands[number]
            if to_host:
                self._hosts.append(number)
            else:
                self._put(number, worker)
        return bool(left)

    def in_hands_bytes(self) -> int:
        """Of workers other than the host."""
        return sum(self._files[number].size_bytes for number, worker in self._hands.items() if worker != self._host)

    def _put(self, number: int, worker: str) -> None:
        name = worker if worker in self._waiting else self._host
        self._waiting[name].append(number)
        self._waiting_bytes[name] += self._files[number].size_bytes
