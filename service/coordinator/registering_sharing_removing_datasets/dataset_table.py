"""Which data sets there are, and what they are found by: digest id, name, listing key. Pure.

What is here was journaled; `apply` and `apply_removal` perform it, when it is decided and when the log is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.registering_sharing_removing_datasets.found_by import FoundBy

MAX_LISTING_KEYS = 100_000
MAX_NAMES = 100_000
MAX_REMOVED = 10_000


@dataclass(frozen=True, slots=True)
class _Listed:
    digest_id: bytes
    terms: types_pb2.ListingTerms | None  # what the key was computed with; None: not said in an older log


class DatasetTable:
    def __init__(self, first_removals: int) -> None:
        """`first_removals`: from which removals are counted; another number at every start."""
        self._datasets: dict[bytes, types_pb2.Dataset] = {}  # the one registered last comes last
        self._called: dict[str, dict[bytes, None]] = {}  # by the name that they have now; the one registered last last
        self._names = FoundBy[str, bytes](MAX_NAMES, lambda digest_id: digest_id)
        # By who alone finds it ("": all), and key.
        self._listing_keys = FoundBy[tuple[str, bytes], _Listed](MAX_LISTING_KEYS, lambda listed: listed.digest_id)
        self._removed: dict[bytes, None] = {}  # those removed last, as far as they were not registered again
        self._to_delete: dict[bytes, None] = {}  # of these, whose files may still be there
        self._removals = first_removals

    def apply(self, record: log_pb2.DatasetRegistered) -> None:
        digest_id = record.dataset.digest_id
        self._removed.pop(digest_id, None)
        self._to_delete.pop(digest_id, None)
        self._take(digest_id)
        self._datasets[digest_id] = record.dataset
        self._called.setdefault(record.dataset.name, {})[digest_id] = None
        if record.dataset.name:
            self._names.set(record.dataset.name, digest_id)
        if record.listing_key:
            terms = record.terms if record.HasField("terms") else None
            self._listing_keys.set((record.listed_for, record.listing_key), _Listed(digest_id, terms))

    def apply_removal(self, digest_id: bytes) -> None:
        """`prune` deletes the file, when the record is durable."""
        if digest_id in self._datasets:
            self._drop(digest_id)
        self._removed.pop(digest_id, None)
        self._removed[digest_id] = self._to_delete[digest_id] = None
        self._removals += 1
        while len(self._removed) > MAX_REMOVED:
            del self._removed[next(iter(self._removed))]

    def still(self) -> Callable[[], Iterator[log_pb2.CommitRecord]]:
        """Gives the records that bring an empty object where this one is now; in any thread, while this one goes on."""
        removed, datasets = list(self._removed), dict(self._datasets)
        names, listing_keys = iter(self._names), iter(self._listing_keys)

        def records() -> Iterator[log_pb2.CommitRecord]:
            for digest_id in removed:
                yield log_pb2.CommitRecord(dataset_removed=log_pb2.DatasetRemoved(digest_id=digest_id))
            for name, digest_id in names:
                if datasets[digest_id].name != name:
                    yield _record(datasets[digest_id], name, b"")
            for (listed_for, listing_key), listed in listing_keys:
                yield _record(datasets[listed.digest_id], "", listing_key, listed.terms, listed_for)
            for dataset in datasets.values():
                yield _record(dataset, dataset.name, b"")

        return records

    def find(self, digest_id: bytes) -> types_pb2.Dataset:
        """Raises NotFoundError."""
        try:
            return self._datasets[digest_id]
        except KeyError:
            raise errors.NotFoundError(f"digest_id: no data set {digest_id.hex()} is registered") from None

    def called(self, digest_id: bytes) -> str:
        """What messages call it: by the name that people know, as far as there is one, and by its number."""
        dataset = self._datasets.get(digest_id)
        number = digest_id.hex()[:12]
        return f"{shortened(dataset.name)} ({number})" if dataset and dataset.name else number

    def __contains__(self, digest_id: object) -> bool:
        return digest_id in self._datasets

    @property
    def removals(self) -> int:
        """Another number after every removal, and after every start."""
        return self._removals

    def removed(self, digest_ids: Iterable[bytes]) -> list[bytes]:
        """Those that were removed, and not registered again."""
        return [digest_id for digest_id in digest_ids if digest_id in self._removed]

    def find_listing(self, listing_key: bytes, name: str = "") -> types_pb2.Dataset:
        """`name`: who asks, who may have registered that listing for themselves."""
        for key in (("", listing_key), (name, listing_key)):
            if key in self._listing_keys:
                return self.find(self._listing_keys[key].digest_id)
        raise errors.NotFoundError(f"listing_key: no data set of listing {listing_key.hex()} is registered")

    def find_name(self, name: str) -> types_pb2.Dataset:
        if name not in self._names:
            raise errors.NotFoundError(f"name: no data set {name!r} is registered")
        return self.find(self._names[name])

    def named(self, name: str) -> list[types_pb2.Dataset]:
        """Those that have it now, newest first."""
        return [self._datasets[digest_id] for digest_id in reversed(self._called.get(name, {}))]

    def all(self) -> list[types_pb2.Dataset]:
        """Newest first."""
        return list(reversed(self._datasets.values()))

    def _drop(self, digest_id: bytes) -> None:
        self._take(digest_id)
        self._names.forget_data_set(digest_id)
        self._listing_keys.forget_data_set(digest_id)

    def _take(self, digest_id: bytes) -> None:
        if (dataset := self._datasets.pop(digest_id, None)) is None:
            return
        called = self._called[dataset.name]
        del called[digest_id]
        if not called:
            del self._called[dataset.name]


def _record(
    dataset: types_pb2.Dataset,
    name: str,
    listing_key: bytes,
    terms: types_pb2.ListingTerms | None = None,
    listed_for: str = "",
) -> log_pb2.CommitRecord:
    named = types_pb2.Dataset()
    named.CopyFrom(dataset)
    named.name = name
    return log_pb2.CommitRecord(
        dataset_registered=log_pb2.DatasetRegistered(
            dataset=named, listing_key=listing_key, terms=terms, listed_for=listed_for
        )
    )
