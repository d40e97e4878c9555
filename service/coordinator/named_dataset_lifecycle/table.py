"""Which data sets have names, as it is journaled; and which names are near one that nobody has. Pure."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Callable, Iterator

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord, NamedDatasetGone, NamedDatasetSet

MAX_NAMED = 10_000
_NEAR, _LIKELY = 5, 256


class NamedTable:
    """`journal`: is given each decision; the caller makes it durable."""

    def __init__(self, journal: Callable[[CommitRecord], None]) -> None:
        self._journal = journal
        self._lives: dict[str, NamedDatasetSet] = {}
        self._names: dict[str, str] = {}  # by life
        self._holding: dict[bytes, set[str]] = {}  # names, by digest id of a version
        self.with_old = set[str]()  # names of those that have old versions
        self._changed: dict[str, None] = {}  # names of which the state is another than when they were taken

    def apply(self, record: CommitRecord) -> None:
        if record.HasField("named_dataset_set"):
            life = record.named_dataset_set
            self._forget(life.spec.name)
            self._changed[life.spec.name] = None
            self._lives[life.spec.name], self._names[life.life] = life, life.spec.name
            if life.old_digest_ids:
                self.with_old.add(life.spec.name)
            for digest_id in (life.digest_id, *life.old_digest_ids):
                self._holding.setdefault(digest_id, set()).add(life.spec.name)
        elif record.HasField("named_dataset_gone"):
            self._changed[record.named_dataset_gone.name] = None
            self._forget(record.named_dataset_gone.name)

    def take_changed(self) -> list[str]:
        """Names of the data sets of which the state is another than at the last time, or that have gone."""
        taken, self._changed = list(self._changed), {}
        return taken

    def put(self, life: NamedDatasetSet) -> bool:
        """Whether that is another state than before. Raises ResourceExhaustedError: too many names."""
        name = life.spec.name
        if self._lives.get(name) == life:
            return False
        if name not in self._lives and len(self._lives) >= MAX_NAMED:
            raise errors.ResourceExhaustedError(
                f"name: {MAX_NAMED} data sets have names already: delete some (tfquiver dataset delete)"
            )
        self._decide(CommitRecord(named_dataset_set=life))
        return True

    def gone(self, name: str) -> None:
        self._decide(CommitRecord(named_dataset_gone=NamedDatasetGone(name=name)))

    def __contains__(self, name: str) -> bool:
        return name in self._lives

    def __iter__(self) -> Iterator[NamedDatasetSet]:
        return iter(list(self._lives.values()))

    def get(self, name: str) -> NamedDatasetSet | None:
        return self._lives.get(name)

    def of_life(self, life: str) -> NamedDatasetSet | None:
        return self._lives.get(self._names.get(life, ""))

    def of_task(self, task_id: str) -> NamedDatasetSet | None:
        """Whose task that is, or was."""
        return self.of_life(task_id.partition("/")[0])

    def holding(self, digest_id: bytes, except_for: str = "") -> list[str]:
        """Names of the data sets of which that is a version, the newest or one before."""
        return sorted(self._holding.get(digest_id, set()) - {except_for}) if digest_id else []

    def is_to_be_pinned(self, digest_id: bytes, except_for: str = "") -> bool:
        """Some data set whose newest version that is."""
        holders = (self._lives[name] for name in self._holding.get(digest_id, ()) if name != except_for)
        return any(one.spec.pin and one.digest_id == digest_id for one in holders)

    def still(self) -> Callable[[], Iterator[CommitRecord]]:
        """Gives the records that bring an empty object where this one is now; in any thread."""
        lives = list(self._lives.values())
        return lambda: (CommitRecord(named_dataset_set=one) for one in lives)

    def owned_by(self, owner: str) -> int:
        return sum(life.owner == owner for life in self._lives.values())

    def _forget(self, name: str) -> None:
        if (life := self._lives.pop(name, None)) is None:
            return
        self._names.pop(life.life, None)
        self.with_old.discard(name)
        for digest_id in (life.digest_id, *life.old_digest_ids):
            names = self._holding.get(digest_id, set())
            names.discard(name)
            if not names:
                self._holding.pop(digest_id, None)

    def _decide(self, record: CommitRecord) -> None:
        self._journal(record)
        self.apply(record)


def unknown(name: str, names: list[str], sees_all: bool = True) -> errors.NotFoundError:
    """`names`: those that whoever asks may know of. `sees_all`: there are no others."""

    def far(one: str) -> tuple[bool, int]:
        return one[:1] != name[:1], abs(len(one) - len(name))

    likely = heapq.nsmallest(_LIKELY, names, far)  # of ten thousand it takes a fifth of a second to compare all
    near = difflib.get_close_matches(name, likely, _NEAR, 0.5)
    there = (
        "none that you may read has a name yet (tfquiver dataset create; its owner shares one: tfquiver dataset share)"
    )
    which = ""
    if names:
        shown = near or heapq.nsmallest(_NEAR, names)
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) and not near else ""
        there = f"{'near it ' * bool(near)}there {'are' if more or shown[1:] else 'is'} {', '.join(shown)}{more}"
        which = "" if sees_all else " that you may read (its owner shares one: tfquiver dataset share)"
    return errors.NotFoundError(f"name: no data set{which} is called {shortened(name)}; {there}")
