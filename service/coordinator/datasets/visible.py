"""The registered data sets as one caller sees them: what somebody may not read is not there for them. Pure."""

from __future__ import annotations

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.datasets.dataset_table import DatasetTable
from tfquiver.service.coordinator.datasets.ownership import Ownership
from tfquiver.trust.identity import Identity, Role

LIST_BYTES = 6 << 20  # a reply; gRPC takes 8 MiB


class Visible:
    def __init__(self, table: DatasetTable, ownership: Ownership) -> None:
        self._table, self._ownership = table, ownership

    def find(self, who: Identity, digest_id: bytes) -> types_pb2.Dataset:
        """Raises NotFoundError, the same whether it is not there or not theirs to read."""
        if not self._ownership.may_read(who, digest_id):
            raise errors.NotFoundError(f"digest_id: no data set {digest_id.hex()} is registered")
        return self._table.find(digest_id)

    def by_name(self, who: Identity, name: str) -> types_pb2.Dataset:
        """Of several, one of their own before one that is shared with them, before one that is everybody's: nobody
        puts another data set in the place of theirs by giving it the same name."""
        found = [one for one in self._readable(who) if one.name == name]
        if not found and who.role is not Role.JOB:
            return self._table.find_name(name)
        if not found:
            raise errors.NotFoundError(f"name: no data set {name!r} is registered")

        def nearness(one: types_pb2.Dataset) -> int:
            access = self._ownership.access(one.digest_id)
            if who.owner in access.owners:
                return 0
            return 1 if who.owner in access.shared_with else 2 if not access.owners else 3 if access.everybody else 4

        return min(found, key=nearness)

    def all(self, who: Identity) -> list[types_pb2.Dataset]:
        """As many as a reply holds, their own first: what others share takes no place from those."""
        readable = self._readable(who)
        readable.sort(key=lambda one: not self._ownership.owns(who, one.digest_id))
        told, left_bytes = list(map(self.told, readable)), LIST_BYTES
        if sum(one.ByteSize() for one in told) > LIST_BYTES:  # then of those that belong to few all is told
            told = [a if a.ByteSize() < LIST_BYTES // len(told) else b for a, b in zip(told, readable, strict=True)]
        fitting = []
        for one in told:
            left_bytes -= one.ByteSize()
            if left_bytes >= 0:
                fitting.append(one)
        return fitting

    def told(self, dataset: types_pb2.Dataset) -> types_pb2.Dataset:
        """With whose it is."""
        access = self._ownership.access(dataset.digest_id)
        told = types_pb2.Dataset(owners=access.owners, shared_with=access.shared_with, everybody=access.everybody)
        told.MergeFrom(dataset)
        return told

    def _readable(self, who: Identity) -> list[types_pb2.Dataset]:
        return [one for one in self._table.all() if self._ownership.may_read(who, one.digest_id)]
